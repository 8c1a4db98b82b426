// Command suanli-nvml asks NVIDIA's management library (NVML) on behalf of the
// agent. It is a process of its own because the library needs cgo, and because a
// driver call may hang or crash: then the agent kills it and starts another.
//
// It answers each line "list" on its standard input by one line of JSON, a
// gpu.Reply. It ends when its input does. It changes nothing on the host.
package main
