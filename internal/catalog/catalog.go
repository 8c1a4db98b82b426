package catalog

import (
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed data
var embedded embed.FS

// Catalog is immutable after Load and safe for concurrent use.
type Catalog struct {
	models    []Model
	byName    map[string]int // simplified driver's or catalog's name → models
	byModel   map[string]int // lower-case model → models
	cuda      []CUDARelease
	cudnn     []CuDNN
	torch     []Torch
	templates []Template
	regions   []Region
}

// Load reads the compiled-in facts and lays folder over them, if it is not
// empty: gpus.csv, names.csv and regions.yaml there add to or replace rows of
// the same name, and each templates/*.yaml adds or replaces a template.
func Load(folder string) (*Catalog, error) {
	base, err := fs.Sub(embedded, "data")
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	layers := []fs.FS{base}
	if folder != "" {
		info, err := os.Stat(folder)
		if err != nil {
			return nil, fmt.Errorf("catalog folder: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("catalog folder %s: it is a file; name a folder with gpus.csv, regions.yaml or templates/", folder)
		}
		layers = append(layers, os.DirFS(folder))
	}
	return load(layers...)
}

func load(layers ...fs.FS) (*Catalog, error) {
	c := &Catalog{byName: map[string]int{}, byModel: map[string]int{}}
	for _, layer := range layers {
		for _, read := range []func(fs.FS) error{
			c.readModels, c.readNames, c.readCUDA, c.readCuDNN, c.readTorch, c.readRegions, c.readTemplates,
		} {
			if err := read(layer); err != nil {
				return nil, fmt.Errorf("catalog: %w", err)
			}
		}
	}
	slices.SortFunc(c.templates, func(a, b Template) int { return strings.Compare(a.Name, b.Name) })
	return c, nil
}

// table reads a CSV whose first line names the columns and calls row for each
// further line. A file that is not there is an empty table.
func table(fsys fs.FS, name string, columns []string, row func(get func(column string) string) error) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := csv.NewReader(f)
	lines, err := r.ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(lines) == 0 {
		return fmt.Errorf("%s: the first line must name the columns: %s", name, strings.Join(columns, ","))
	}
	at := map[string]int{}
	for i, column := range lines[0] {
		if !slices.Contains(columns, column) {
			return fmt.Errorf("%s line 1: unknown column %q; the columns are %s", name, column, strings.Join(columns, ","))
		}
		at[column] = i
	}
	for i, line := range lines[1:] {
		get := func(column string) string {
			if n, ok := at[column]; ok {
				return strings.TrimSpace(line[n])
			}
			return ""
		}
		if err := row(get); err != nil {
			return fmt.Errorf("%s line %d: %w", name, i+2, err)
		}
	}
	return nil
}

// strict reads one YAML document into v. Keys that v does not have are errors
// that name the line.
func strict(fsys fs.FS, name string, v any) error {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalWithOptions(b, v, yaml.Strict(), yaml.DisallowUnknownField()); err != nil {
		// The library's text has "[line:column] what" and an excerpt.
		return fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, true))
	}
	return nil
}

func files(fsys fs.FS, pattern string) ([]string, error) {
	names, err := fs.Glob(fsys, pattern)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return names, nil
}
