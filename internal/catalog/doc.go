// Package catalog is the facts that suanli sells by: GPU models, which driver
// runs which CUDA, where hosts may stand, and the templates that renters start
// from. They are data files with their sources beside them, compiled in, and an
// operator's folder is laid over them. The package reads and answers; it holds
// no prices and nothing about any particular host. It imports nothing of suanli.
//
// A figure that could not be confirmed is absent (zero), never estimated. The
// figures that are given come from the tables in data/, each row of which names
// where it is from.
package catalog
