package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"suanli.dev/api"
	"suanli.dev/internal/documented"
	"suanli.dev/internal/sim"
)

const simulatePath = "../../docs/simulate.md"

var outputMark = regexp.MustCompile("(?s)<!-- output: ([^>]*) -->\n```\n(.*?)```\n")

//go:generate go test suanli.dev/cmd/suanli -run TestTheDocumentShowsWhatASimulationPrints -update

// Whoever tries the example of the document sees what it shows.
func TestTheDocumentShowsWhatASimulationPrints(t *testing.T) {
	old, err := os.ReadFile(simulatePath)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	current := outputMark.ReplaceAllStringFunc(string(old), func(block string) string {
		shown++
		line := outputMark.FindStringSubmatch(block)[1]
		words := strings.Fields(line)
		for i, w := range words {
			if strings.Contains(w, ".") {
				words[i] = filepath.Join(filepath.Dir(simulatePath), "simulate", w)
			}
		}
		var out, side bytes.Buffer
		if err := runInto(t.Context(), &out, &side, append([]string{"sim", "run"}, words...)...); err != nil {
			t.Fatal(err)
		}
		return "<!-- output: " + line + " -->\n```\n" + out.String() + "```\n"
	})
	if shown != 2 {
		t.Fatalf("%s shows %d outputs", simulatePath, shown)
	}
	documented.Whole(t, simulatePath, current)
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```\n")

func TestTheDescriptionInTheDocumentIsRead(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(simulatePath)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"fleet.yaml":     yamlBlock.FindStringSubmatch(string(doc))[1],
		"p3.csv":         "0,add,node1\n",
		"nodes.csv":      "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,2,T4\n",
		"us-east-1.json": `{"SpotPriceHistory":[{"AvailabilityZone":"us-east-1b","InstanceType":"p3.2xlarge","SpotPrice":"1.0","Timestamp":"2020-02-20T00:00:00Z"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, p, err := readFleet(filepath.Join(dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := sim.Standard(); p != want {
		t.Errorf("the document's policy is %+v, the standard is %+v", p, want)
	}
	if len(f.Groups) != 3 || len(f.Others) != 1 || len(f.Demand) != 1 {
		t.Errorf("%+v", f)
	}
}

// What a cloud exports is a trace.
func TestAnExportCanBeReplayed(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	var out, side bytes.Buffer
	if err := runInto(t.Context(), &out, &side, "sim", "export", "--server", p.url, "--token", "t"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var d api.Demand
		var r sim.Record
		in := json.NewDecoder(strings.NewReader(line))
		in.DisallowUnknownFields()
		if err := in.Decode(&d); err != nil {
			t.Fatal(err)
		}
		in = json.NewDecoder(strings.NewReader(line))
		in.DisallowUnknownFields()
		if err := in.Decode(&r); err != nil {
			t.Fatalf("a trace has no such field: %v", err)
		}
		if d.Model != r.Model || d.GPUs != r.GPUs || d.PerHour != r.PerHour || *r.RanSeconds != d.RanSeconds {
			t.Errorf("%+v is read as %+v", d, r)
		}
	}
	if out.Len() == 0 {
		t.Fatal("nothing was exported")
	}
}

func TestASimulationWithoutAFleetIsAMistakeOfUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"sim", "run"}, {"sim", "run", "--fleet", "absent.yaml"}, {"sim", "run", "../../docs/simulate/fleet.yaml", "--fleet", "../../docs/simulate/fleet.yaml"},
		{"sim", "run", "--fleet", "../../docs/simulate/fleet.yaml", "--granularity", "day"}} {
		var out, side bytes.Buffer
		if err := runInto(t.Context(), &out, &side, args...); report(err) != exitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
}
