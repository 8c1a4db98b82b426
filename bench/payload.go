package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// payload is what this binary does inside containers and child processes.
func payload(args []string) int {
	switch args[0] {
	case "say":
		return say()
	case "serve":
		return serve()
	case "naive":
		if err := naiveProcess(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "cloud":
		if err := cloudProcess(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	fmt.Fprintln(os.Stderr, "no such payload")
	return 2
}

// say prints a line and stays until it is told to go.
func say() int {
	c := make(chan os.Signal, 1)
	// The first process of a container ignores signals that it does not handle.
	signal.Notify(c, syscall.SIGTERM)
	fmt.Println("first")
	<-c
	return 0
}

// serve answers /N with N bytes, on port 8080.
func serve() int {
	block := make([]byte, 256<<10)
	for i := range block {
		block[i] = byte(i*7 + i>>8)
	}
	err := http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			http.Error(w, "want /BYTES", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Header().Set("Content-Type", "application/octet-stream")
		for n > 0 {
			m, err := w.Write(block[:min(n, len(block))])
			if err != nil {
				return
			}
			n -= m
		}
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}
