package money_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
)

// exact is r × quantity ÷ per in micro-units, rounded half to even by math/big.
func exact(r money.Rate, quantity, per int64) *big.Int {
	num := new(big.Int).Mul(big.NewInt(int64(r)), big.NewInt(quantity))
	den := new(big.Int).Mul(big.NewInt(per), big.NewInt(1000))
	neg := num.Sign() < 0
	num.Abs(num)
	q, rem := new(big.Int).QuoRem(num, den, new(big.Int))
	switch c := rem.Lsh(rem, 1).Cmp(den); {
	case c > 0, c == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(1))
	}
	if neg {
		q.Neg(q)
	}
	return q
}

func TestTimesIsTheExactProductRoundedOnceHalfToEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := money.Rate(rapid.Int64().Draw(t, "rate"))
		quantity := rapid.Int64Min(0).Draw(t, "quantity")
		per := rapid.Int64Min(1).Draw(t, "per")
		want := exact(r, quantity, per)
		got, err := r.Times(quantity, per)
		switch {
		case errors.Is(err, money.ErrOverflow):
			// Refusing more than must be refused is allowed only for divisors that do not fit.
			if want.IsInt64() && per <= math.MaxInt64/1000 && want.CmpAbs(big.NewInt(math.MaxInt64)) <= 0 {
				t.Fatalf("%s × %d ÷ %d overflows, but is %s", r, quantity, per, want)
			}
		case err != nil:
			t.Fatal(err)
		case want.Cmp(big.NewInt(int64(got))) != 0:
			t.Fatalf("%s × %d ÷ %d = %d micro, want %s", r, quantity, per, got, want)
		}
	})
}

func TestTimesRoundsTiesToEven(t *testing.T) {
	t.Parallel()
	for nano, want := range map[money.Rate]money.Amount{500: 0, 1500: 2, 2500: 2, 2501: 3, -1500: -2, -2500: -2} {
		if got, err := nano.Times(1, 1); err != nil || got != want {
			t.Errorf("%d nano = %d micro, %v; want %d", nano, got, err, want)
		}
	}
}

func TestTimesRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int64{{-1, 1}, {1, 0}, {1, -5}} {
		if _, err := money.Rate(1).Times(c[0], c[1]); err == nil {
			t.Errorf("× %d ÷ %d is accepted", c[0], c[1])
		}
	}
}

func TestAddFailsInsteadOfWrapping(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		want := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		got, err := money.Amount(a).Add(money.Amount(b))
		if (err == nil) != want.IsInt64() {
			t.Fatalf("%d + %d: error %v, exact sum %s", a, b, err, want)
		}
		if err == nil && int64(got) != want.Int64() {
			t.Fatalf("%d + %d = %d", a, b, got)
		}
	})
}

func TestShareAndRestAreTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := money.Amount(rapid.Int64().Draw(t, "amount"))
		bp := rapid.Int64Range(0, 10_000).Draw(t, "basis points")
		got, err := a.Share(bp)
		if err != nil {
			t.Fatal(err)
		}
		want := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(bp))
		want.Quo(want, big.NewInt(10_000)) // towards zero
		if want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("%d bp of %d = %d, want %s", bp, a, got, want)
		}
	})
}

func TestAmountsSurviveTextAndJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type both struct {
			A money.Amount
			R money.Rate
		}
		in := both{money.Amount(rapid.Int64().Draw(t, "amount")), money.Rate(rapid.Int64().Draw(t, "rate"))}
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out both
		if err := json.Unmarshal(b, &out); err != nil || out != in {
			t.Fatalf("%s reads back as %v, %v", b, out, err)
		}
		for _, s := range []string{in.A.String(), in.A.Display()} {
			if a, err := money.ParseAmount(s); err != nil || a != in.A {
				t.Fatalf("%q reads back as %d, %v; want %d", s, a, err, in.A)
			}
		}
	})
}

// Sums that other systems got wrong by going through floating point.
func TestParseIsExactWhereFloatsAreNot(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]money.Amount{
		"-79.99": -79_990_000, "1.15": 1_150_000, "0.000001": 1, "-0.5": -500_000,
		"9223372036854.775807": math.MaxInt64, "-9223372036854.775808": math.MinInt64, "007": 7_000_000,
	} {
		if got, err := money.ParseAmount(s); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", s, got, err, want)
		}
	}
}

func TestParseRefusesWhatIsNotAPlainDecimal(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "-", ".5", "5.", "1e3", "+1", "--1", "1,000", " 1", "1 ", "0x1", "NaN", "Inf", "1.0000001", "9223372036854.775808", "１", "1.-5"} {
		if got, err := money.ParseAmount(s); err == nil {
			t.Errorf("%q is read as %s", s, got)
		}
	}
}

func FuzzParseAmountNeverPanicsAndRoundTrips(f *testing.F) {
	for _, s := range []string{"1.5", "-0.000001", "9223372036854.775807", "-", "1.", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := money.ParseAmount(s)
		if err != nil {
			return
		}
		if b, err := money.ParseAmount(a.String()); err != nil || a != b {
			t.Fatalf("%q is %d, prints %q, reads back as %d, %v", s, a, a.String(), b, err)
		}
	})
}
