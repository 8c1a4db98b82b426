package reservation_test

import (
	"context"
	"testing"
	"time"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/reservation"
	"suanli.dev/internal/store/storetest"
)

// newCloud is a cloud with a host whose disk is of a size, and a renter with money.
func newCloud(t *testing.T, diskGiB int64) *cloud {
	t.Helper()
	ctx := t.Context()
	c, err := open(ctx, storetest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.db.Close() })
	c.diskGiB = diskGiB
	if _, err := c.join(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.billing.Deposit(context.WithoutCancel(ctx), operator, renter.AccountID, 10_000_000_000, "", ""); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cloud) reserve(t *testing.T, b reservation.Purchase) *reservation.Reservation {
	t.Helper()
	b.GPUModel, b.GPUs, b.Payment, b.Agreed = "RTX 4090", 1, pricing.NoUpfront, 10_000_000_000
	r, err := c.own.Create(t.Context(), renter, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// No disk is held, so a host has GPUs to reserve whose disk is nearly full.
func TestReservingWantsNoFreeDisk(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 5)
	r := c.reserve(t, reservation.Purchase{Name: "any", Request: reservation.Request{Months: 1}})
	c.reserve(t, reservation.Purchase{Name: "here", Request: reservation.Request{Months: 1, OfferID: r.HostID + ".rtx-4090.1"}})
}

func TestTheEndOfAReservationIsToldAWeekAndADayBefore(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 100)
	c.reserve(t, reservation.Purchase{Name: "long", Renews: true, Request: reservation.Request{Until: noon.Add(10 * 24 * time.Hour)}})
	c.reserve(t, reservation.Purchase{Name: "short", Request: reservation.Request{Until: noon.Add(20 * time.Hour)}})
	turn := func(at time.Duration, want ...string) {
		t.Helper()
		c.now = noon.Add(at)
		for range 2 { // once is enough
			if err := c.own.Turn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, n := range c.news {
			got = append(got, n.Name+" "+(time.Duration(n.ThresholdSeconds)*time.Second).String())
			if n.Name == "long" && (!n.Renews || n.Until.Before(noon.Add(10*24*time.Hour))) {
				t.Errorf("told %+v", n)
			}
		}
		c.news = nil
		if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("after %s it was told %v, want %v", at, got, want)
		}
	}
	turn(0)
	turn(72*time.Hour - time.Second)
	turn(72*time.Hour, "long 168h0m0s")
	turn(8 * 24 * time.Hour)
	turn(9*24*time.Hour+time.Hour, "long 24h0m0s")
	turn(10*24*time.Hour - time.Second)
	// The next term is as long, so it is told of when its time comes.
	turn(10*24*time.Hour + time.Minute)
	turn(13*24*time.Hour+2*time.Minute, "long 168h0m0s")
}
