package lease

import (
	"strings"
	"testing"

	"suanli.dev/internal/fault"
)

func TestAnImageNameThatCannotWorkIsRefusedAtTheQuote(t *testing.T) {
	t.Parallel()
	for _, image := range []string{"cloud://digits:1@evil", "x@sha256:zz", "DIGITS:1", "team/Digits:1", strings.Repeat("x", 500), "x:", "cloud://", "cloud://DIGITS:1", "x:" + strings.Repeat("1", 129)} {
		f, ok := fault.As(checkImage(image, nil))
		if !ok || f.Code != "invalid_image" || f.Location != "body.image" {
			t.Errorf("%q: %v", image, f)
		}
	}
	for _, image := range []string{"0x7f000001/x", "2130706433/x", "0X7F000001/x:1"} {
		if f, ok := fault.As(checkImage(image, nil)); !ok || f.Code != "registry_refused" || f.Location != "body.image" {
			t.Errorf("%q: %v", image, f)
		}
	}
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, image := range []string{"debian", "debian:12", "debian" + digest, "debian:12" + digest, "cloud://digits:1", "cloud://a/b" + digest, "7zip/7zip:1"} {
		if err := checkImage(image, nil); err != nil {
			t.Errorf("%q: %v", image, err)
		}
	}
}

func TestAnImageCannotSendTheEngineToTheHostsOwnServices(t *testing.T) {
	t.Parallel()
	for image, refused := range map[string]bool{
		"debian:12": false, "pytorch/pytorch:2.8.0": false, "cloud://digits:1": false, "registry.example.com/a/b:1": false,
		"registry.example.com:5000/a@sha256:0000000000000000000000000000000000000000000000000000000000000000": false,
		"127.0.0.1:7081/x:1": true, "127.1/x": true, "2130706433:80/x:1": true, "0x7f.0.0.0x1/x": true, "localhost/x": true, "LOCALHOST:22/x": true,
		"localhost.:22/x": true, "db.localhost:5000/x": true, "169.254.169.254/x": true, "10.0.0.5:5000/x": true, "8.8.8.8/x": true,
		"metadata:80/x": true, "metadata.google.internal/x": true, "printer.local/x": true,
	} {
		if err := checkImage(image, nil); (err != nil) != refused {
			t.Errorf("%s: error %v, want one: %t", image, err, refused)
		}
	}
}

func TestAnInnerRegistryThatTheOperatorNamesIsTaken(t *testing.T) {
	t.Parallel()
	trusted := []string{"10.0.0.5:5000", "registry.lan"}
	for image, refused := range map[string]bool{
		"10.0.0.5:5000/team/train:1": false, "Registry.lan/train:1": false,
		"10.0.0.5:5001/team/train:1": true, "10.0.0.6:5000/train:1": true, "other.lan/train:1": true,
	} {
		if err := checkImage(image, trusted); (err != nil) != refused {
			t.Errorf("%s: %v", image, err)
		}
	}
}
