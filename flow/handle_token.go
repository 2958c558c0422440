package flow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// seal encrypts what is written to the database.
func (h *Handle) seal(v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeEncode, "a flow cannot be written: %w", err)
	}
	return h.codec.Encode(plain)
}

// sealRequest encrypts what is sent to a pause: a request that is repeated has the same bytes.
func (h *Handle) sealRequest(c *call, input json.RawMessage) ([]byte, error) {
	if len(input) == 0 {
		input = nil
	}
	plain, err := json.Marshal(&turnRequest{Input: input, Strategy: c.strategy, Base: c.base})
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the input is not JSON")
	}
	return h.keys.sealSame(handlePurpose, plain)
}

func (h *Handle) openRequest(sealed []byte) (*turnRequest, error) {
	plain, err := h.keys.openSame(handlePurpose, sealed)
	if err != nil {
		return nil, err
	}
	r := new(turnRequest)
	return r, json.Unmarshal(plain, r)
}

func (h *Handle) open(sealed []byte, v any) error {
	var plain []byte
	if err := h.codec.Decode(sealed, &plain); err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

// handleToken is what a token of a handle says: which pause of which run it is for, and by which key that is true.
type handleToken struct {
	run    string
	serial uint32
}

// token makes the token of a pause. It is the same whenever and wherever it is made.
func (h *Handle) token(run string, r *turnRecord) (string, error) {
	plain := binary.BigEndian.AppendUint32(nil, uint32(r.State.Serial)) //nolint:gosec // no flow has so many pauses
	plain = append(plain, byte(len(r.State.Key)))
	plain = append(plain, r.State.Key...)
	plain = append(plain, run...)
	mac := h.keys.mac(r.State.Key, handlePurpose, string(plain))
	if mac == nil {
		return "", cairnerr.Errorf(cairnerr.CodeUnsupported, "the key %q, with which a token was made, is not among the keys", r.State.Key)
	}
	return base64.RawURLEncoding.EncodeToString(append(plain, mac...)), nil
}

// read returns what a token is for. A token that this handle has not made is refused without asking the database.
func (h *Handle) read(token string) (handleToken, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 5+sha256.Size || len(raw) < 5+int(raw[4])+sha256.Size || len(raw) > 1024 {
		return handleToken{}, errToken
	}
	plain, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	want := h.keys.mac(string(plain[5:5+int(plain[4])]), handlePurpose, string(plain))
	if want == nil || !hmac.Equal(mac, want) {
		return handleToken{}, errToken
	}
	return handleToken{run: string(plain[5+int(plain[4]):]), serial: binary.BigEndian.Uint32(plain)}, nil
}

// stored is what the database has of a token.
func stored(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "flow:" + base64.RawURLEncoding.EncodeToString(sum[:])
}
