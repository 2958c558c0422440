// Command login signs people in with a password and a code, over pages that need no JavaScript and no database. The
// flow travels encrypted in its token. Open http://127.0.0.1:8081/login, and use ada@example.com with the password
// "correct horse". The code is printed here.
package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/cairn-workflow/cairn/flow"
)

// Login is what the flow remembers between two pages.
type Login struct {
	Email string
	OK    bool
	Code  string
}

// Credentials is the first form.
type Credentials struct {
	Email    string `json:"email" jsonschema:"title=E-mail address,format=email" autocomplete:"username"`
	Password string `json:"password" form:"password" autocomplete:"current-password"`
}

// Code is the second form.
type Code struct {
	Code string `json:"code" jsonschema:"title=Code,pattern=^[0-9]{6}$" jsonschema_description:"Six digits. We have just sent them to you." autocomplete:"one-time-code"`
}

// users are the passwords by e-mail address. A real program has hashes, in a database.
var users = map[string]string{"ada@example.com": "correct horse"}

// SignIn asks for credentials until they are right, five times at most, and then for a code, which is good for ten
// minutes.
func SignIn(send func(to, code string) error) *flow.Def[Login] {
	return flow.New("auth/login",
		flow.Ask("credentials", func(_ context.Context, s *Login, in Credentials) error {
			password, known := users[in.Email]
			if !known || subtle.ConstantTimeCompare([]byte(password), []byte(in.Password)) == 0 {
				return flow.Invalid{"": "E-mail address and password do not go together."}
			}
			s.Email, s.OK = in.Email, true
			return nil
		}).Attempts(5),
		flow.Do("send code", func(_ context.Context, s *Login) error {
			n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
			if err != nil {
				return err
			}
			s.Code = fmt.Sprintf("%06d", n)
			return send(s.Email, s.Code)
		}),
		flow.Ask("code", func(_ context.Context, s *Login, in Code) error {
			if subtle.ConstantTimeCompare([]byte(s.Code), []byte(in.Code)) == 0 {
				return flow.Invalid{"code": "is not the one that we have sent"}
			}
			return nil
		}).TTL(10*time.Minute).Attempts(3),
		flow.End(func(*Login) flow.Result { return flow.Redirect("/") }))
}

// site returns the pages: the flow, and what it leads to.
func site(key []byte, send func(to, code string) error) (http.Handler, error) {
	keys, err := flow.NewKeys("2026", map[string][]byte{"2026": key})
	if err != nil {
		return nil, err
	}
	h, err := flow.NewHandler(flow.Config{
		Strategies: flow.Strategies{"sealed": flow.NewSealed(keys)},
		Allow:      []flow.Flow{SignIn(send)},
		Title:      func(string) string { return "Sign in" },
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/flow", h)
	mux.Handle("GET /login", http.RedirectHandler("/flow?flow=auth%2Flogin", http.StatusSeeOther))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "You are signed in.") })
	return mux, nil
}

func main() {
	address := flag.String("listen", "127.0.0.1:8081", "the address to listen on")
	flag.Parse()
	key := make([]byte, flow.KeySize) // a real program keeps its keys, so that its tokens survive a restart
	if _, err := rand.Read(key); err != nil {
		log.Fatal(err)
	}
	handler, err := site(key, func(to, code string) error {
		fmt.Println("the code for", to, "is", code)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/login\n", listener.Addr())
	log.Fatal((&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}).Serve(listener))
}
