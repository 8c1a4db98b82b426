// Package config is what an operator can set: one list of settings, each with
// its key in the configuration file, its environment variable, its flag, its
// default and what it does. The file is read first, the environment over it,
// flags over both; everything is checked before anything is started.
package config
