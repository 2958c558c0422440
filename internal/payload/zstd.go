package payload

import (
	"errors"
	"runtime"

	"github.com/klauspost/compress/zstd"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Both work for a few goroutines at once; more than that wait. They are made when the program starts and not at
// first use: they hold channels, and a channel made inside a testing/synctest bubble cannot be used outside it.
var (
	compressor   = newCompressor()
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(parallel()), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxSize+codecHeader), zstd.WithDecoderMaxWindow(maxWindow)))
)

// maxWindow bounds the memory that a compressed value may ask for before any of it is read.
const maxWindow = 8 << 20

// parallel is how many values are compressed at once. Each costs a quarter of a megabyte, whether it is used or not.
func parallel() int { return min(runtime.GOMAXPROCS(0), 8) }

func newCompressor() *zstd.Encoder {
	w := must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(parallel()),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20)))
	w.EncodeAll(nil, nil) // makes the channels now
	return w
}

// compress returns plain in a compressed envelope.
func compress(plain []byte) []byte {
	dst := make([]byte, 1, 1+len(plain)/2)
	dst[0] = tagZstd
	return compressor.EncodeAll(plain, dst)
}

func decompress(body []byte) ([]byte, error) {
	plain, err := decompressor.DecodeAll(body, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "a compressed payload is larger than %d bytes", MaxSize)
	case err != nil:
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "a compressed payload cannot be read: %w", err)
	}
	return plain, nil
}
