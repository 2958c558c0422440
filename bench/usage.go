package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// use is what something cost.
type use struct {
	cpu          float64 // microseconds, of this process and of the database's
	bytes        float64 // written
	statements   float64 // of the store's writers
	transactions float64 // of the store
}

func (u use) minus(v use) use {
	return use{u.cpu - v.cpu, u.bytes - v.bytes, u.statements - v.statements, u.transactions - v.transactions}
}

func (u use) plus(v use) use {
	return use{u.cpu + v.cpu, u.bytes + v.bytes, u.statements + v.statements, u.transactions + v.transactions}
}

// ownCPU returns the CPU time of this process in microseconds.
func ownCPU() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e3
}

// ownBytes returns how much this process has written to files.
func ownBytes() float64 { return procNumber("/proc/self/io", "wchar:") }

// ownRSS returns how many bytes of memory this process has.
func ownRSS() float64 { return procNumber("/proc/self/status", "VmRSS:") * 1024 }

// procNumber returns the number after a name in a file of /proc, 0 if there is none.
func procNumber(path, name string) float64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseFloat(f[1], 64)
			return n
		}
	}
	return 0
}

// childCPU returns the CPU time of a server's processes in microseconds: of the parent, its children, and the children that ended.
func childCPU(parent int) float64 {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var ticks float64
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(text), ") ")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		ppid, _ := strconv.Atoi(f[1])
		if pid != parent && ppid != parent {
			continue
		}
		for _, i := range []int{11, 12} {
			n, _ := strconv.ParseFloat(f[i], 64)
			ticks += n
		}
		if pid == parent {
			for _, i := range []int{13, 14} {
				n, _ := strconv.ParseFloat(f[i], 64)
				ticks += n
			}
		}
	}
	return ticks * 1e4 // a tick is a hundredth of a second on Linux
}
