package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Region is a place with one or more zones.
type Region struct {
	ID     string `yaml:"id"`
	Name   string `yaml:"name"`
	NameZH string `yaml:"name_zh"`
	Zones  []Zone `yaml:"zones"`
	// Granularity is what running time counts in here: "second", "minute" or
	// "hour"; empty: as in the rest of the cloud.
	Granularity string `yaml:"granularity"`
	// MinimumSeconds is the shortest time that a run is charged for here; nil: as in
	// the rest of the cloud.
	MinimumSeconds *int64 `yaml:"minimum_seconds"`
}

// Zone is a part of a region that fails on its own.
type Zone struct {
	ID     string `yaml:"id"`
	Name   string `yaml:"name"`
	NameZH string `yaml:"name_zh"`
}

// Regions lists all regions.
func (c *Catalog) Regions() []Region { return slices.Clone(c.regions) }

// Region returns a region by its ID, and whether there is one.
func (c *Catalog) Region(id string) (Region, bool) {
	i := slices.IndexFunc(c.regions, func(r Region) bool { return r.ID == id })
	if i < 0 {
		return Region{}, false
	}
	return c.regions[i], true
}

// HasZone reports whether there is such a region and, unless zone is empty,
// such a zone in it.
func (c *Catalog) HasZone(region, zone string) bool {
	i := slices.IndexFunc(c.regions, func(r Region) bool { return r.ID == region })
	if i < 0 {
		return false
	}
	return zone == "" || slices.ContainsFunc(c.regions[i].Zones, func(z Zone) bool { return z.ID == zone })
}

func (c *Catalog) readRegions(fsys fs.FS) error {
	var file struct {
		Regions []Region `yaml:"regions"`
	}
	err := strict(fsys, "regions.yaml", &file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range file.Regions {
		if !templateName.MatchString(r.ID) {
			return fmt.Errorf("regions.yaml: region id %q: want up to 63 of a-z, 0-9 and -", r.ID)
		}
		if r.Granularity != "" && r.Granularity != "second" && r.Granularity != "minute" && r.Granularity != "hour" {
			return fmt.Errorf("regions.yaml: granularity %q in region %s: want second, minute or hour", r.Granularity, r.ID)
		}
		if m := r.MinimumSeconds; m != nil && (*m < 0 || *m > 86400) {
			return fmt.Errorf("regions.yaml: minimum_seconds %d in region %s: want 0 to 86400", *m, r.ID)
		}
		for _, z := range r.Zones {
			if !templateName.MatchString(z.ID) {
				return fmt.Errorf("regions.yaml: zone id %q in region %s: want up to 63 of a-z, 0-9 and -", z.ID, r.ID)
			}
		}
		if i := slices.IndexFunc(c.regions, func(o Region) bool { return o.ID == r.ID }); i >= 0 {
			c.regions[i] = r
			continue
		}
		c.regions = append(c.regions, r)
	}
	return nil
}
