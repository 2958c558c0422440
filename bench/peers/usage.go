package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownCPU returns the CPU time of this process in microseconds.
func ownCPU() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e3
}

// childCPU returns the CPU time of a server's processes in microseconds: of the parent, its children, and the children that ended.
func childCPU(parent int) float64 {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	var ticks float64
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, ok := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 15 {
			continue
		}
		// Counted from the state: 1 is the parent's id, 11 and 12 the process's own user and system ticks, 13 and 14 those of its children.
		switch strconv.Itoa(parent) {
		case filepath.Base(filepath.Dir(path)):
			ticks += sum(fields[11:15])
		case fields[1]:
			ticks += sum(fields[11:13])
		}
	}
	return ticks * 1e4 // a tick is a hundredth of a second on Linux
}

func sum(fields []string) float64 {
	var total float64
	for _, f := range fields {
		if n, err := strconv.ParseFloat(f, 64); err == nil {
			total += n
		}
	}
	return total
}
