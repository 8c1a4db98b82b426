package catalog

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// CUDARelease is a release of the CUDA toolkit and what it asks of the driver
// on Linux.
type CUDARelease struct {
	CUDA   string // "12.4"
	Update string // "GA", "Update 1"
	Driver string // the lowest that has all of the release
	// MinorDriver is the lowest on which programs built with this release run
	// by CUDA's minor version compatibility.
	MinorDriver string
	CCMin       string // the lowest compute capability that it compiles for
	CCMax       string // the highest that it knows
	Source      string
}

// CuDNN is a release of cuDNN and what it runs on.
type CuDNN struct {
	CuDNN, CUDA, Driver string
	Capabilities        []string
	Source              string
}

// Torch is a PyTorch build: which GPUs its wheels for one CUDA version carry code for.
type Torch struct {
	Torch, CUDA, Channel string
	Capabilities         []string
	CuDNN                string
	PythonMin, PythonMax string
	Source               string
}

// CUDA lists the releases, newest first.
func (c *Catalog) CUDA() []CUDARelease { return slices.Clone(c.cuda) }

// CuDNN lists the releases of cuDNN.
func (c *Catalog) CuDNN() []CuDNN { return slices.Clone(c.cudnn) }

// Torch lists the builds of PyTorch.
func (c *Catalog) Torch() []Torch { return slices.Clone(c.torch) }

// MaxCUDA returns the highest CUDA version that a Linux driver has in full, or
// "" if the driver is older than all in the table.
func (c *Catalog) MaxCUDA(driverVersion string) string {
	best := ""
	for _, r := range c.cuda {
		if r.Driver != "" && CompareVersions(driverVersion, r.Driver) >= 0 && CompareVersions(r.CUDA, best) > 0 {
			best = r.CUDA
		}
	}
	return best
}

// MinDriver returns the lowest Linux driver on which programs built with a CUDA
// version run, or "" if the version is not in the table.
func (c *Catalog) MinDriver(cuda string) string {
	lowest := ""
	for _, r := range c.cuda {
		if r.CUDA == cuda && (lowest == "" || CompareVersions(r.MinorDriver, lowest) < 0) {
			lowest = r.MinorDriver
		}
	}
	return lowest
}

// CompareVersions compares dotted versions number by number: -1, 0 or 1. What
// is not a number counts as 0, and missing parts do too.
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		m, _ := strconv.Atoi(x)
		n, _ := strconv.Atoi(y)
		if m != n {
			if m < n {
				return -1
			}
			return 1
		}
	}
	return 0
}

func (c *Catalog) readCUDA(fsys fs.FS) error {
	columns := []string{"cuda", "update", "driver_linux_min", "minor_compatibility_driver_min", "cc_min", "cc_max", "source"}
	return table(fsys, "cuda_driver.csv", columns, func(get func(string) string) error {
		r := CUDARelease{
			CUDA: get("cuda"), Update: get("update"), Driver: get("driver_linux_min"),
			MinorDriver: get("minor_compatibility_driver_min"), CCMin: get("cc_min"), CCMax: get("cc_max"), Source: get("source"),
		}
		if r.CUDA == "" || r.MinorDriver == "" || r.Source == "" {
			return fmt.Errorf("a CUDA release needs cuda, minor_compatibility_driver_min and source")
		}
		c.cuda = append(c.cuda, r)
		return nil
	})
}

func (c *Catalog) readCuDNN(fsys fs.FS) error {
	columns := []string{"cudnn", "cuda", "driver_linux_min", "cc_list", "source"}
	return table(fsys, "cudnn.csv", columns, func(get func(string) string) error {
		c.cudnn = append(c.cudnn, CuDNN{
			CuDNN: get("cudnn"), CUDA: get("cuda"), Driver: get("driver_linux_min"),
			Capabilities: strings.Fields(get("cc_list")), Source: get("source"),
		})
		return nil
	})
}

func (c *Catalog) readTorch(fsys fs.FS) error {
	columns := []string{"torch", "cuda", "channel", "sm_list", "ptx", "cudnn", "python_min", "python_max", "pypi_default", "rocm", "source"}
	return table(fsys, "torch.csv", columns, func(get func(string) string) error {
		c.torch = append(c.torch, Torch{
			Torch: get("torch"), CUDA: get("cuda"), Channel: get("channel"), Capabilities: strings.Fields(get("sm_list")),
			CuDNN: get("cudnn"), PythonMin: get("python_min"), PythonMax: get("python_max"), Source: get("source"),
		})
		return nil
	})
}
