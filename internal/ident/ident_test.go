package ident

import (
	"testing"
	"time"
)

func TestFirstIsBetweenWhatWasMadeBeforeAndAfter(t *testing.T) {
	t.Parallel()
	made := New(Charge)
	now := time.Now()
	if first := First(Charge, now.Add(time.Minute)); made >= first {
		t.Errorf("%s was made before %s, and sorts after it", made, first)
	}
	if first := First(Charge, now.Add(-time.Minute)); made < first {
		t.Errorf("%s was made after %s, and sorts before it", made, first)
	}
	if err := Check(Charge, First(Charge, now)); err != nil {
		t.Error(err)
	}
	if a, b := First(Charge, time.Time{}), First(Charge, time.UnixMilli(0)); a != b {
		t.Errorf("before all time is %s, want %s", a, b)
	}
}

func TestNamesThatCouldBeTakenForIdentifiersAreTold(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		id := New(k)
		for _, name := range []string{id, id[:13]} {
			if !Resembles(name) {
				t.Errorf("%q is not told", name)
			}
		}
	}
	for _, name := range []string{"", "us-east", "us-west-2-training", "tr-bert", "train", "ls", "-", "sk-learn", "us-washington-d"} {
		if Resembles(name) {
			t.Errorf("%q is taken for an identifier", name)
		}
	}
}
