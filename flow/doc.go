// Package flow has interactive flows: programs that ask a person, wait, and go on with the answer.
//
//	type Login struct { // the context: what the flow remembers
//		Email string
//		OK    bool
//	}
//	type Credentials struct { // a form
//		Email    string `json:"email" jsonschema:"title=E-mail address,format=email"`
//		Password string `json:"password" form:"password"`
//	}
//
//	var SignIn = flow.New("auth/login",
//		flow.While(func(s *Login) bool { return !s.OK },
//			flow.Ask("credentials", checkPassword)), // func(context.Context, *Login, Credentials) error
//		flow.End(func(s *Login) flow.Result { return flow.Redirect("/home") }))
//
//	h, err := flow.NewHandler(flow.Config{
//		Strategies: flow.Strategies{"sealed": flow.NewSealed(keys)},
//		Allow:      []flow.Flow{SignIn},
//	})
//	http.Handle("/flow", h)
//
// # Turns
//
// A flow is done in turns. A turn does items until the next [Ask], or to the end. Then the flow waits, and a token stands
// for it. Whoever sends the token and what the form asks for does the next turn. The flow goes on exactly at the Ask that
// waited: no condition before it is evaluated again, and what was sent reaches no other Ask.
//
// If a function fails, the turn fails, and the flow waits as before. A function that returns [Invalid] asks again.
//
// # Where a flow waits
//
// A [Strategy] keeps flows that wait. [Sealed] needs no database: the token holds the flow, encrypted. [Handle] keeps each
// flow in a run of an engine, so that it survives restarts, waits for months, and of several answers one wins.
//
// # Forms
//
// A form is made from a struct. Fields have the names that encoding/json gives them, and are required unless their tag
// says omitempty or they are pointers. These tags say more:
//
//	jsonschema:"title=Your e-mail,format=email,maxLength=80" // the label, and which values fit
//	jsonschema_description:"We never show it."               // the help text
//	choices:"s=Small,m=Medium"                               // the only values that fit, with their labels
//	form:"password"                                          // the control: password, textarea, radio, hidden, …
//	autocomplete:"one-time-code"                             // what a browser may fill in
//
// A struct with a method Validate() error is checked by it, too.
package flow
