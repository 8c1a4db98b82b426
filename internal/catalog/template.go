package catalog

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
)

// Template is a starting point for a rental. A renter may change all of it.
type Template struct {
	Name          string   `yaml:"name"`
	Title         string   `yaml:"title"`
	TitleZH       string   `yaml:"title_zh"`
	Description   string   `yaml:"description"`
	DescriptionZH string   `yaml:"description_zh"`
	Scenario      string   `yaml:"scenario"` // "training", "notebook", "development", "demo", …
	Image         string   `yaml:"image"`    // OCI reference, or cloud://name:tag in the cloud's own registry
	Entrypoint    []string `yaml:"entrypoint"`
	Command       []string `yaml:"command"`
	StartScript   string   `yaml:"start_script"` // run by /bin/sh before the command
	// NoticeSignal is sent to the command, and NoticeCommand run by /bin/sh beside it,
	// when a spot lease is told of its interruption.
	NoticeSignal  string            `yaml:"notice_signal"`
	NoticeCommand string            `yaml:"notice_command"`
	Environment   map[string]string `yaml:"environment"`
	// GeneratedSecrets are environment variables that get a random value of
	// their own in each rental, such as a notebook's token.
	GeneratedSecrets []string       `yaml:"generated_secrets"`
	Ports            []TemplatePort `yaml:"ports"`
	// Activity names a program inside that says whether it is busy; nil: none.
	Activity *TemplateActivity `yaml:"activity"`
	// IdleStop is the idle stop of leases whose renter sets none; nil: the cloud's.
	IdleStop *TemplateIdleStop `yaml:"idle_stop"`
	DiskGiB  int64             `yaml:"disk_gib"`
	Needs    Needs             `yaml:"needs"`
}

// TemplatePort is a TCP port that is served inside.
type TemplatePort struct {
	Port     int    `yaml:"port"`
	Name     string `yaml:"name"`
	Protocol string `yaml:"protocol"` // "http" or "tcp"
}

// TemplateActivity is how a program is asked whether it has work going on that
// neither GPU nor CPU shows.
type TemplateActivity struct {
	Kind          string `yaml:"kind"` // "jupyter"
	Port          int    `yaml:"port"`
	TokenVariable string `yaml:"token_variable"` // environment variable with the program's token
}

// TemplateIdleStop stops a lease that nobody uses.
type TemplateIdleStop struct {
	AfterSeconds int64 `yaml:"after_seconds"` // 0: never
	GPUPercent   int   `yaml:"gpu_percent"`   // busy above this
	CPUPercent   int   `yaml:"cpu_percent"`   // busy above this, of all its CPUs
}

// Needs is what a template asks of an offer; zero values ask nothing.
type Needs struct {
	GPUs              int    `yaml:"gpus"`
	VRAMGiB           int    `yaml:"vram_gib"` // of each GPU
	CUDA              string `yaml:"cuda"`
	Driver            string `yaml:"driver"`
	ComputeCapability string `yaml:"compute_capability"` // at least
	MemoryGiB         int    `yaml:"memory_gib"`
}

// Templates lists all templates by name.
func (c *Catalog) Templates() []Template { return slices.Clone(c.templates) }

// Template finds a template by name.
func (c *Catalog) Template(name string) (Template, bool) {
	i := slices.IndexFunc(c.templates, func(t Template) bool { return t.Name == name })
	if i < 0 {
		return Template{}, false
	}
	return c.templates[i], true
}

var (
	templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// noticeSignals are those that an instance passes on to its command.
var noticeSignals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"}

func (t Template) validate() error {
	switch {
	case !templateName.MatchString(t.Name):
		return fmt.Errorf("name %q: want up to 63 of a-z, 0-9 and -, starting with a letter or digit", t.Name)
	case t.Image == "":
		return fmt.Errorf("template %s has no image", t.Name)
	case t.DiskGiB < 1 || t.DiskGiB > 1<<20:
		return fmt.Errorf("template %s: disk_gib is %d; want at least 1", t.Name, t.DiskGiB)
	case t.NoticeSignal != "" && !slices.Contains(noticeSignals, t.NoticeSignal):
		return fmt.Errorf("template %s: notice_signal is %q; want one of %v", t.Name, t.NoticeSignal, noticeSignals)
	case t.Needs.GPUs < 0 || t.Needs.VRAMGiB < 0 || t.Needs.MemoryGiB < 0:
		return fmt.Errorf("template %s: needs may not be negative", t.Name)
	}
	for _, p := range t.Ports {
		if p.Port < 1 || p.Port > 65535 {
			return fmt.Errorf("template %s: port %d; want 1 to 65535", t.Name, p.Port)
		}
		if p.Protocol != "http" && p.Protocol != "tcp" {
			return fmt.Errorf("template %s: port %d has protocol %q; want http or tcp", t.Name, p.Port, p.Protocol)
		}
	}
	if a := t.Activity; a != nil {
		switch {
		case a.Kind != "jupyter":
			return fmt.Errorf("template %s: activity %q; want jupyter", t.Name, a.Kind)
		case a.Port < 1 || a.Port > 65535:
			return fmt.Errorf("template %s: activity port %d; want 1 to 65535", t.Name, a.Port)
		case a.TokenVariable != "" && !variableName.MatchString(a.TokenVariable):
			return fmt.Errorf("template %s: %q is not the name of an environment variable", t.Name, a.TokenVariable)
		}
	}
	if i := t.IdleStop; i != nil {
		if i.AfterSeconds != 0 && (i.AfterSeconds < 60 || i.AfterSeconds > 366*86400) {
			return fmt.Errorf("template %s: idle stop after %d seconds; want 60 to %d, or 0 for never", t.Name, i.AfterSeconds, 366*86400)
		}
		if i.GPUPercent < 0 || i.GPUPercent > 100 || i.CPUPercent < 0 || i.CPUPercent > 100 {
			return fmt.Errorf("template %s: idle thresholds are %d %% of GPU and %d %% of CPU; want 0 to 100", t.Name, i.GPUPercent, i.CPUPercent)
		}
	}
	for name := range t.Environment {
		if !variableName.MatchString(name) {
			return fmt.Errorf("template %s: %q is not the name of an environment variable", t.Name, name)
		}
	}
	for _, name := range t.GeneratedSecrets {
		if !variableName.MatchString(name) {
			return fmt.Errorf("template %s: %q is not the name of an environment variable", t.Name, name)
		}
	}
	return nil
}

func (c *Catalog) readTemplates(fsys fs.FS) error {
	names, err := files(fsys, "templates/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		var t Template
		if err := strict(fsys, name, &t); err != nil {
			return err
		}
		if err := t.validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i := slices.IndexFunc(c.templates, func(o Template) bool { return o.Name == t.Name }); i >= 0 {
			c.templates[i] = t
			continue
		}
		c.templates = append(c.templates, t)
	}
	return nil
}
