// Package payload puts users' values into their envelope and takes them out again.
//
// An envelope is bytes whose first byte says how to read the rest. A value is written by a codec (CBOR, JSON or bytes
// as they are); around it there can be layers (compression, then encryption), each with a first byte of its own:
//
//	0x01 CBOR                    the default, deterministic: equal values have equal bytes
//	0x02 JSON                    what FromJSON is given, without white space
//	0x03 bytes as they are       what a []byte becomes
//	0x10 zstd                    around another envelope
//	0x20 AES-256-GCM             around another envelope; the key's name stands before the ciphertext
//
// In CBOR, a json.RawMessage is stored as the value it holds, in the types that Go values have: whole numbers as
// integers or bignums, others as floats. A number whose digits no float64 has is a text with the tag [tagDecimal].
// Older versions stored the text of a json.RawMessage as a byte string; that is still read.
//
// The empty envelope stands for "no value" and is read as null. A number above never gets another meaning; a first
// byte that this program does not know is refused.
//
// Nothing that goes in or comes out shares memory with the other side.
package payload
