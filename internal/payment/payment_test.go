package payment_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/payment"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func each(t *testing.T, test func(t *testing.T, l *till)) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) { test(t, newTill(t, db)) })
}

func TestAPaymentIsCreditedOnceHoweverOftenItIsSaidToBePaid(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.create(25_000_000)
		if p.State != payment.Pending || p.CheckoutURL == "" {
			t.Fatalf("%+v", p)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := l.Observe(l.ctx, "psp", paid(p)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		l.pass(time.Hour)
		l.observe(paid(p))
		l.sweep()
		if p = l.want(p.ID, payment.Credited); p.Credited != 25_000_000 {
			t.Errorf("%+v", p)
		}
		l.wantSettled(25_000_000)
		if len(l.announced) != 1 || l.announced[0] != "ac-ada payment.received "+p.ID {
			t.Errorf("announced: %v", l.announced)
		}
	})
}

func TestACallbackMayComeBeforeOurOwnRequestIsAnswered(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		l.psp.during = func(o payment.Order) {
			if err := l.Observe(l.ctx, "psp", payment.Observation{Kind: payment.SawPaid, PaymentID: o.PaymentID, Ref: "cs_" + o.PaymentID, ChargeRef: "pi", Minor: o.Minor, Currency: string(o.Currency)}); err != nil {
				t.Error(err)
			}
		}
		p := l.create(5_000_000)
		l.want(p.ID, payment.Credited)
		l.wantSettled(5_000_000)
	})
}

func TestWhatNoCallbackSaysIsFoundByAsking(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p, q, r := l.create(5_000_000), l.create(6_000_000), l.create(7_000_000)
		l.psp.set(func() {
			l.psp.looks[p.ID] = paid(p)
			l.psp.looks[q.ID] = payment.Observation{Kind: payment.SawExpired, PaymentID: q.ID}
		})
		l.sweep() // nothing is due yet
		l.want(p.ID, payment.Pending)
		l.pass(time.Minute)
		l.sweep()
		l.want(p.ID, payment.Credited)
		l.want(q.ID, payment.Expired)
		l.want(r.ID, payment.Pending)
		// And money that comes after all has come.
		l.observe(paid(q))
		l.want(q.ID, payment.Credited)
		l.observe(payment.Observation{Kind: payment.SawExpired, PaymentID: q.ID})
		l.want(q.ID, payment.Credited)
		l.wantSettled(11_000_000)
	})
}

func TestAProviderThatDoesNotAnswerIsAskedAgainUnderTheSameKey(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		l.psp.down = errors.New("connection reset")
		_, err := l.Create(l.ctx, ada, 5_000_000, "psp", "k")
		wantFault(t, err, "payment_provider_unavailable")
		l.psp.set(func() { l.psp.down = nil })
		p, err := l.Create(l.ctx, ada, 5_000_000, "psp", "k")
		if err != nil || p.State != payment.Pending {
			t.Fatalf("%+v, %v", p, err)
		}
		_, err = l.Create(l.ctx, ada, 6_000_000, "psp", "k")
		wantFault(t, err, "idempotency_conflict")

		l.psp.set(func() { l.psp.down = errors.New("connection reset") })
		_, err = l.Create(l.ctx, ada, 7_000_000, "psp", "k2")
		wantFault(t, err, "payment_provider_unavailable")
		l.psp.set(func() { l.psp.down = nil })
		l.pass(2 * time.Minute)
		l.sweep()
		list, err := l.Payments(l.ctx, payment.Filter{AccountID: ada.AccountID, State: payment.Pending, Limit: 10})
		if err != nil || len(list) != 2 {
			t.Fatalf("%d payments wait to be paid, %v; want the two", len(list), err)
		}
		if len(l.psp.orders) != 2 {
			t.Errorf("the provider has %d orders", len(l.psp.orders))
		}
	})
}

func TestAPaymentThatNobodyWasToldWhereToPayExpires(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		l.psp.down = errors.New("connection reset")
		_, err := l.Create(l.ctx, ada, 5_000_000, "psp", "k")
		wantFault(t, err, "payment_provider_unavailable")
		l.pass(23 * time.Hour)
		l.sweep()
		list, err := l.Payments(l.ctx, payment.Filter{Limit: 10})
		if err != nil || len(list) != 1 || list[0].State != payment.Expired {
			t.Fatalf("%+v, %v", list, err)
		}
	})
}

func TestARefusedPaymentFailsWithTheProvidersReason(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		l.psp.down = &payment.Refusal{Message: "too small\n"}
		_, err := l.Create(l.ctx, ada, 10_000, "psp", "")
		wantFault(t, err, "payment_refused")
		list, err := l.Payments(l.ctx, payment.Filter{State: payment.Failed, Limit: 10})
		if err != nil || len(list) != 1 || list[0].Reason != "too small " {
			t.Fatalf("%+v, %v", list, err)
		}
	})
}

func TestMoneyThatIsNotWhatWasAskedForIsPutAside(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		for _, change := range []func(*payment.Observation){
			func(o *payment.Observation) { o.Minor-- },
			func(o *payment.Observation) { o.Minor++ },
			func(o *payment.Observation) { o.Currency = "CNY" },
			func(o *payment.Observation) { o.Currency = "" },
		} {
			p := l.create(25_000_000)
			o := paid(p)
			change(&o)
			l.observe(o)
			if got := l.want(p.ID, payment.Aside); got.Attention == "" {
				t.Errorf("%+v", got)
			}
			l.observe(paid(p)) // it has been decided what it is
			l.want(p.ID, payment.Aside)
		}
		l.wantSettled(0)
		list, err := l.Payments(l.ctx, payment.Filter{Attention: true, Limit: 10})
		if err != nil || len(list) != 4 {
			t.Fatalf("%d payments want attention, %v", len(list), err)
		}
		// Newest first: without a currency, CNY, more, less.
		_, err = l.Resolve(l.ctx, operator, list[1].ID, true, "")
		wantFault(t, err, "payment_currency_differs")
		if _, err := l.Resolve(l.ctx, operator, list[1].ID, false, "given back"); err != nil {
			t.Fatal(err)
		}
		l.want(list[1].ID, payment.Failed)
		if _, err := l.Resolve(l.ctx, operator, list[3].ID, true, ""); err != nil {
			t.Fatal(err)
		}
		l.want(list[3].ID, payment.Credited)
		l.wantSettled(24_990_000)
		_, err = l.Resolve(l.ctx, operator, list[3].ID, true, "")
		wantFault(t, err, "payment_state")
	})
}

func TestAPaymentThatIsPaidTwiceIsCreditedOnceAndShown(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(5_000_000)
		o := paid(p)
		o.Ref = "cs_another"
		l.observe(o)
		if p = l.want(p.ID, payment.Credited); !strings.Contains(p.Attention, "cs_another") {
			t.Errorf("%+v", p)
		}
		l.wantSettled(5_000_000)
	})
}

func TestARefundLeavesTheWalletFirstAndIsSentOnce(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		if _, err := l.Refund(l.ctx, operator, p.ID, 10_000_000, "asked", "k1"); err != nil {
			t.Fatal(err)
		}
		if p = l.want(p.ID, payment.Credited); p.Refunded != 10_000_000 || len(p.Refunds) != 1 || p.Refunds[0].State != payment.Done {
			t.Errorf("%+v", p)
		}
		l.wantSettled(15_000_000)
		if _, err := l.Refund(l.ctx, operator, p.ID, 10_000_000, "asked", "k1"); err != nil {
			t.Fatal(err)
		}
		_, err := l.Refund(l.ctx, operator, p.ID, 11_000_000, "asked", "k1")
		wantFault(t, err, "idempotency_conflict")
		_, err = l.Refund(l.ctx, operator, p.ID, 15_000_001, "", "k2")
		wantFault(t, err, "refund_amount_invalid")

		// The provider is away: it is posted, and sent when it is there again.
		l.psp.set(func() { l.psp.down = errors.New("timeout") })
		if p, err = l.Refund(l.ctx, operator, p.ID, 0, "", "k3"); err != nil || p.State != payment.Refunding {
			t.Fatalf("%+v, %v", p, err)
		}
		l.wantSettled(0)
		_, err = l.Refund(l.ctx, operator, p.ID, 0, "", "k4")
		wantFault(t, err, "payment_state")
		l.psp.set(func() { l.psp.down = nil; l.psp.refund = payment.StillOpen })
		l.pass(2 * time.Minute)
		l.sweep()
		l.want(p.ID, payment.Refunding)
		l.psp.set(func() { l.psp.refund = payment.Done })
		l.pass(10 * time.Minute)
		l.sweep()
		l.want(p.ID, payment.Refunded)
		if l.psp.sent != 2500 {
			t.Errorf("the provider gave back %d cents", l.psp.sent)
		}
		l.wantSettled(0)
	})
}

func TestARefundThatFailsIsInTheWalletAgain(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		l.psp.set(func() { l.psp.down = &payment.Refusal{Message: "charge_disputed"} })
		if _, err := l.Refund(l.ctx, operator, p.ID, 0, "", ""); err != nil {
			t.Fatal(err)
		}
		if p = l.want(p.ID, payment.Credited); p.Refunded != 0 || !strings.Contains(p.Attention, "charge_disputed") {
			t.Errorf("%+v", p)
		}
		l.wantSettled(25_000_000)
		// Also where it had gone through, and the payer's bank sends it back.
		l.psp.set(func() { l.psp.down = nil })
		if _, err := l.Refund(l.ctx, operator, p.ID, 0, "", ""); err != nil {
			t.Fatal(err)
		}
		p = l.want(p.ID, payment.Refunded)
		o := payment.Observation{Kind: payment.SawRefund, RefundID: p.Refunds[1].ID, ItemRef: p.Refunds[1].Ref, ChargeRef: p.ChargeRef, Minor: 2500, Currency: "USD", Progress: payment.NotDone}
		l.observe(o)
		l.observe(o)
		l.want(p.ID, payment.Credited)
		l.wantSettled(25_000_000)
	})
}

func TestARefundOfMoneyThatIsSpentIsRefused(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		if _, err := l.billing.Refund(l.ctx, operator, ada.AccountID, 20_000_000, "", ""); err != nil {
			t.Fatal(err)
		}
		_, err := l.Refund(l.ctx, operator, p.ID, 0, "", "")
		wantFault(t, err, "insufficient_balance")
		l.want(p.ID, payment.Credited)
		if l.psp.sent != 0 {
			t.Errorf("the provider gave back %d cents", l.psp.sent)
		}
	})
}

func TestARefundMadeAtTheProviderItselfLeavesTheWallet(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		o := payment.Observation{Kind: payment.SawRefund, ItemRef: "re_1", ChargeRef: p.ChargeRef, Minor: 2500, Currency: "USD", Progress: payment.Done}
		l.observe(o)
		l.observe(o)
		l.want(p.ID, payment.Refunded)
		l.wantSettled(0)
		o.ItemRef = "re_2"
		l.observe(o)
		if p = l.want(p.ID, payment.Refunded); !strings.Contains(p.Attention, "re_2") {
			t.Errorf("%+v", p)
		}
		l.wantSettled(0)
	})
}

func dispute(p payment.Payment, progress string) payment.Observation {
	return payment.Observation{Kind: payment.SawDispute, ItemRef: "dp_1", ChargeRef: "pi_" + p.ID, Minor: int64(p.Amount / 10_000), Currency: "USD", Reason: "fraudulent", Progress: progress}
}

func TestADisputeTakesTheMoneyBackAndMayLeaveADebt(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		if _, err := l.billing.Refund(l.ctx, operator, ada.AccountID, 20_000_000, "spent elsewhere", ""); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			l.observe(dispute(p, payment.StillOpen))
		}
		l.want(p.ID, payment.Disputed)
		l.wantSettled(-20_000_000)
		_, err := l.Refund(l.ctx, operator, p.ID, 0, "", "")
		wantFault(t, err, "payment_state")
		l.observe(dispute(p, payment.Won))
		l.observe(dispute(p, payment.Won))
		l.observe(dispute(p, payment.StillOpen)) // old news
		l.want(p.ID, payment.Credited)
		l.wantSettled(5_000_000)

		q := l.credited(10_000_000)
		lost := dispute(q, payment.Lost)
		lost.ItemRef = "dp_2"
		l.observe(lost) // nobody had said that it was open
		l.observe(lost)
		l.want(q.ID, payment.Disputed)
		l.wantSettled(5_000_000)
	})
}

func TestADisputeOfAnotherAmountIsPutAside(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		o := dispute(p, payment.StillOpen)
		o.Minor++
		l.observe(o)
		if p = l.want(p.ID, payment.Credited); p.Attention == "" {
			t.Errorf("%+v", p)
		}
		l.wantSettled(25_000_000)
	})
}

func TestWhatIsHeardBeforeThePaymentIsKnownIsKept(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.create(25_000_000)
		l.observe(dispute(p, payment.StillOpen))
		l.observe(payment.Observation{Kind: payment.SawRefund, ItemRef: "re_x", ChargeRef: "pi_of_another_shop", Minor: 5, Currency: "EUR", Progress: payment.Done})
		l.want(p.ID, payment.Pending)
		l.observe(paid(p))
		l.want(p.ID, payment.Disputed)
		l.wantSettled(0)
	})
}

// Whatever a provider says, how often and in which order: the account has what came
// less what went back.
func TestAnyOrderOfWhatAProviderSaysComesToTheSame(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		var want money.Amount
		for n := range 12 {
			p := l.create(10_000_000)
			d := dispute(p, payment.StillOpen)
			d.ItemRef = "dp_" + p.ID
			end := d
			end.Progress = []string{payment.Won, payment.Lost}[n%2]
			say := []payment.Observation{paid(p), d, end, {Kind: payment.SawWaiting, PaymentID: p.ID}, {Kind: payment.SawExpired, PaymentID: p.ID}}
			say = append(say, say...)
			rand.Shuffle(len(say), func(i, j int) { say[i], say[j] = say[j], say[i] })
			for _, o := range say {
				l.observe(o)
			}
			if n%2 == 0 {
				want += 10_000_000
				l.want(p.ID, payment.Credited)
			} else {
				l.want(p.ID, payment.Disputed)
			}
			l.wantSettled(want)
		}
	})
}

func TestEventsThatNoCallbackBroughtAreRead(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.credited(25_000_000)
		l.psp.set(func() { l.psp.list = []payment.Observation{dispute(p, payment.StillOpen)} })
		l.pass(10 * time.Minute)
		l.sweep()
		l.want(p.ID, payment.Disputed)
		l.wantSettled(0)
	})
}

func TestACallbackIsReadOnlyIfItIsSigned(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		p := l.create(5_000_000)
		body := []byte(`{"Kind":"paid","PaymentID":"` + p.ID + `","Ref":"cs_` + p.ID + `","Minor":500,"Currency":"USD"}`)
		_, _, err := l.Callback(l.ctx, "psp", nil, body)
		wantFault(t, err, "callback_signature")
		l.want(p.ID, payment.Pending)
		_, _, err = l.Callback(l.ctx, "other", nil, body)
		wantFault(t, err, "payment_provider_unknown")
		signed := map[string][]string{"Signature": {"right"}}
		_, _, err = l.Callback(l.ctx, "psp", signed, []byte("{"))
		wantFault(t, err, "callback_invalid")
		_, answer, err := l.Callback(l.ctx, "psp", signed, body)
		if err != nil || answer != "success" {
			t.Fatalf("%q, %v", answer, err)
		}
		l.want(p.ID, payment.Credited)
	})
}

func TestABankTransferIsEnteredConfirmedAndReversed(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		in := payment.Transfer{AccountID: ada.AccountID, Amount: 100_000_000, Reference: "FT-1"}
		p, err := l.Enter(l.ctx, operator, in, "")
		if err != nil || p.State != payment.Pending {
			t.Fatalf("%+v, %v", p, err)
		}
		l.wantSettled(0)
		_, err = l.Enter(l.ctx, operator, in, "")
		wantFault(t, err, "bank_reference_used")
		_, err = l.Deposit(l.ctx, operator, in, "")
		wantFault(t, err, "bank_reference_used")
		other := in
		other.AccountID = "ac-other"
		if _, err := l.Enter(l.ctx, operator, other, ""); err != nil {
			t.Errorf("another account's transfer: %v", err)
		}
		_, err = l.Confirm(l.ctx, operator, p.ID, 1_000_000_000)
		wantFault(t, err, "confirm_amount_differs")
		for range 2 {
			if p, err = l.Confirm(l.ctx, operator, p.ID, 100_000_000); err != nil || p.State != payment.Credited {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		l.wantSettled(100_000_000)
		for range 2 {
			if p, err = l.Reverse(l.ctx, operator, p.ID, "another customer's"); err != nil || p.State != payment.Refunded {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		l.wantSettled(0)
		// The reference is free, and what is entered right now counts.
		if _, err = l.Deposit(l.ctx, operator, in, ""); err != nil {
			t.Fatal(err)
		}
		l.wantSettled(100_000_000)
	})
}

func TestADepositIsABankTransferInOneAct(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		in := payment.Transfer{AccountID: ada.AccountID, Amount: 1_500_001}
		first, err := l.Deposit(l.ctx, operator, in, "k")
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.Deposit(l.ctx, operator, in, "k")
		if err != nil || again.ID != first.ID {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := l.Deposit(l.ctx, operator, in, "k2"); err != nil {
			t.Errorf("another without a reference: %v", err)
		}
		in.Amount++
		_, err = l.Deposit(l.ctx, operator, in, "k")
		wantFault(t, err, "idempotency_conflict")
		l.wantSettled(3_000_002)
	})
}

func TestNobodyButAnOperatorEntersConfirmsReversesOrRefunds(t *testing.T) {
	t.Parallel()
	l := newTill(t, storetest.Open(t, storetest.Address(t)))
	p := l.credited(5_000_000)
	in := payment.Transfer{AccountID: ada.AccountID, Amount: 1, Reference: "r"}
	for name, act := range map[string]func() error{
		"enter":   func() error { _, err := l.Enter(l.ctx, ada, in, ""); return err },
		"deposit": func() error { _, err := l.Deposit(l.ctx, ada, in, ""); return err },
		"confirm": func() error { _, err := l.Confirm(l.ctx, ada, p.ID, 1); return err },
		"reverse": func() error { _, err := l.Reverse(l.ctx, ada, p.ID, ""); return err },
		"refund":  func() error { _, err := l.Refund(l.ctx, ada, p.ID, 0, "", ""); return err },
		"resolve": func() error { _, err := l.Resolve(l.ctx, ada, p.ID, true, ""); return err },
		"create": func() error {
			_, err := l.Create(l.ctx, account.Principal{UserID: "us", AccountID: "ac-ada", Role: account.Viewer}, 1_000_000, "", "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantFault(t, act(), "forbidden") })
	}
	_, err := l.Payment(l.ctx, "ac-eve", p.ID)
	wantFault(t, err, "payment_not_found")
}

func TestAmountsThatNoProviderCanTakeAreRefused(t *testing.T) {
	t.Parallel()
	l := newTill(t, storetest.Open(t, storetest.Address(t)))
	for _, a := range []money.Amount{0, -1, 1, 9_999, 10_001, 999_999_990_001, 1_000_000_000_000, 1<<63 - 1} {
		_, err := l.Create(l.ctx, ada, a, "", "")
		wantFault(t, err, "payment_amount_invalid")
	}
	_, err := l.Create(l.ctx, ada, 1_000_000, "paypal", "")
	wantFault(t, err, "payment_provider_unknown")
}

func TestAnAnnouncementThatFailsCreditsNothingUntilItWorks(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Address(t))
	l := newTill(t, db)
	broken := errors.New("no room")
	s, _, _, err := services(l.ctx, db, l.clock, l.psp, func(context.Context, *store.Tx, string, string, string, time.Time, any) error { return broken })
	if err != nil {
		t.Fatal(err)
	}
	p := l.create(5_000_000)
	if err := s.Observe(l.ctx, "psp", paid(p)); !errors.Is(err, broken) {
		t.Fatalf("%v", err)
	}
	l.want(p.ID, payment.Succeeded)
	l.wantSettled(0)
	l.sweep()
	l.want(p.ID, payment.Credited)
	l.wantSettled(5_000_000)
}

func TestMoneyIsTakenFromTheHoldBeforeThereIsDebt(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		l.credited(25_000_000)
		if err := l.db.Update(l.ctx, func(ctx context.Context, tx *store.Tx) error {
			_, _, err := l.billing.GiveBack(ctx, tx, billing.Receipt{AccountID: ada.AccountID, Currency: money.USD, Amount: 30_000_000, Key: "x", At: noon}, true)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		l.wantSettled(-5_000_000)
		l.credited(7_000_000)
		l.wantSettled(2_000_000)
	})
}

func TestATransferThatWasReversedIsNotConfirmedAfterAll(t *testing.T) {
	each(t, func(t *testing.T, l *till) {
		enter := func() payment.Payment {
			p, err := l.Enter(l.ctx, operator, payment.Transfer{AccountID: ada.AccountID, Amount: 17_000_000, Reference: "DUP"}, "")
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		first := enter()
		if _, err := l.Reverse(l.ctx, operator, first.ID, "entered wrongly"); err != nil {
			t.Fatal(err)
		}
		second := enter()
		for _, p := range []payment.Payment{second, first} {
			_, err := l.Confirm(l.ctx, operator, p.ID, 17_000_000)
			if p.ID == first.ID {
				wantFault(t, err, "payment_state")
			} else if err != nil {
				t.Fatal(err)
			}
		}
		l.wantSettled(17_000_000)
	})
}
