package catalog

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Model is a kind of GPU. A figure that is not known for sure is zero.
type Model struct {
	Name              string
	Vendor            string // "nvidia", "amd"
	Architecture      string // "hopper", "cdna3"
	ComputeCapability string // "9.0"; "gfx942" on AMD
	VRAMGB            int    // as the vendor states it
	Memory            string // "HBM3"
	BandwidthGBs      int    // memory, 10⁹ bytes per second
	// Tenths of a TFLOPS, without sparsity; FP16 is on tensor or matrix cores
	// where the GPU has them.
	FP32DeciTFLOPS int
	FP16DeciTFLOPS int
	TDPWatts       int
	NVLinkGBs      int // 10⁹ bytes per second, all links, both directions; AMD: Infinity Fabric
	NVENCUnits     int
	Source         string
}

var modelColumns = []string{
	"model", "vendor", "architecture", "compute_capability", "vram_gb", "memory", "bandwidth_gbs",
	"fp32_tflops", "fp16_dense_tflops", "tdp_w", "nvlink_gbs", "nvenc_units", "source",
}

// Models lists all models, in the order of the table.
func (c *Catalog) Models() []Model { return slices.Clone(c.models) }

// Model finds a model by its name in the catalog, in any case.
func (c *Catalog) Model(name string) (Model, bool) {
	i, ok := c.byModel[strings.ToLower(strings.TrimSpace(name))]
	if !ok {
		return Model{}, false
	}
	return c.models[i], true
}

// Lookup finds the model that a driver calls driverName, such as "NVIDIA
// GeForce RTX 4090" or "Tesla V100-SXM2-16GB". vramMiB tells apart models that
// the driver calls the same, such as the two RTX 3080; zero: not known.
//
// For a GPU that the catalog does not have, Lookup returns a model with the
// driver's name without the vendor's, the VRAM that was given, and false.
func (c *Catalog) Lookup(driverName string, vramMiB int64) (Model, bool) {
	name := simplify(driverName)
	if i, ok := c.byName[name]; ok && near(c.models[i], vramMiB) {
		return c.models[i], true
	}
	// "RTX 3080" with 12 GiB is the catalog's "RTX 3080 12GB".
	if vramMiB > 0 {
		for _, m := range c.models {
			base, ok := strings.CutSuffix(simplify(m.Name), " "+strconv.Itoa(m.VRAMGB)+"gb")
			if ok && base == name && near(m, vramMiB) {
				return m, true
			}
		}
	}
	if i, ok := c.byName[name]; ok && vramMiB == 0 {
		return c.models[i], true
	}
	return Model{Name: bare(driverName), VRAMGB: int((vramMiB + 512) / 1024)}, false
}

// near reports whether a GPU with vramMiB can be an m: drivers show up to a
// tenth less than the data sheet (ECC, firmware), or a little more (GiB for GB).
func near(m Model, vramMiB int64) bool {
	if vramMiB <= 0 || m.VRAMGB == 0 {
		return true
	}
	want := int64(m.VRAMGB) * 1024
	return vramMiB*100 >= want*85 && vramMiB*100 <= want*108
}

// bare takes the vendor's and the family's names off a driver's name.
func bare(driverName string) string {
	s := strings.Join(strings.Fields(driverName), " ")
	for _, prefix := range []string{"NVIDIA ", "AMD ", "GeForce ", "Tesla ", "Instinct "} {
		if len(s) > len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
			s = s[len(prefix):]
		}
	}
	return s
}

func simplify(driverName string) string {
	s := strings.ToLower(bare(driverName))
	for _, suffix := range []string{" laptop gpu"} {
		// A laptop GPU of the same name is another, slower chip.
		if strings.HasSuffix(s, suffix) {
			return s
		}
	}
	return s
}

func (c *Catalog) readModels(fsys fs.FS) error {
	return table(fsys, "gpus.csv", modelColumns, func(get func(string) string) error {
		m := Model{
			Name: get("model"), Vendor: get("vendor"), Architecture: get("architecture"),
			ComputeCapability: get("compute_capability"), Memory: get("memory"), Source: get("source"),
		}
		if m.Name == "" || m.Source == "" {
			return fmt.Errorf("a model needs a name and a source")
		}
		var err error
		for column, to := range map[string]*int{
			"vram_gb": &m.VRAMGB, "bandwidth_gbs": &m.BandwidthGBs, "tdp_w": &m.TDPWatts,
			"nvlink_gbs": &m.NVLinkGBs, "nvenc_units": &m.NVENCUnits,
		} {
			var tenths int
			if tenths, err = deci(get(column)); err != nil {
				return fmt.Errorf("%s of %s: %w", column, m.Name, err)
			}
			*to = tenths / 10
		}
		for column, to := range map[string]*int{"fp32_tflops": &m.FP32DeciTFLOPS, "fp16_dense_tflops": &m.FP16DeciTFLOPS} {
			if *to, err = deci(get(column)); err != nil {
				return fmt.Errorf("%s of %s: %w", column, m.Name, err)
			}
		}
		key := strings.ToLower(m.Name)
		if i, ok := c.byModel[key]; ok {
			c.models[i] = m
			return nil
		}
		c.models = append(c.models, m)
		c.byModel[key] = len(c.models) - 1
		c.byName[simplify(m.Name)] = len(c.models) - 1
		return nil
	})
}

func (c *Catalog) readNames(fsys fs.FS) error {
	return table(fsys, "names.csv", []string{"name", "model"}, func(get func(string) string) error {
		i, ok := c.byModel[strings.ToLower(get("model"))]
		if !ok {
			return fmt.Errorf("model %q is not in gpus.csv", get("model"))
		}
		c.byName[simplify(get("name"))] = i
		return nil
	})
}

// deci reads a decimal as tenths, cutting further digits; empty is zero.
func deci(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	whole, frac, _ := strings.Cut(s, ".")
	n, err := strconv.Atoi(whole + (frac + "0")[:1])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number like 82.6", s)
	}
	return n, nil
}
