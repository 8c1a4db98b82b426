package server

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pdf"
	"suanli.dev/internal/pricing"
)

// invoiceCSV writes an invoice as a table: its lines, each followed by what grants
// paid of it, then one row for the rounding and one for each tax that is added, so
// that the column "amount" adds up to the total.
func invoiceCSV(v billing.Invoice) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	rows := [][]string{{"invoice", "kind", "lease_id", "meter", "from", "to", "currency", "amount", "simulated"}}
	row := func(kind, lease, meter string, from, to time.Time, amount money.Amount, simulated bool) {
		rows = append(rows, []string{v.Number, kind, lease, meter, from.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano), string(v.Currency), amount.String(), strconv.FormatBool(simulated)})
	}
	for _, l := range v.Lines {
		kind := "use"
		if l.Correction {
			kind = "correction"
		}
		row(kind, l.LeaseID, string(l.Meter), l.From, l.To, l.Amount, l.Simulated)
		if l.Granted != 0 {
			row("grant", l.LeaseID, string(l.Meter), l.From, l.To, -l.Granted, l.Simulated)
		}
	}
	if v.Rounding != 0 {
		row("rounding", "", "", v.Start, v.End, v.Rounding, false)
	}
	for _, t := range v.Taxes {
		if !t.Inclusive {
			row("tax", "", t.Jurisdiction+" "+t.Name, v.Start, v.End, t.Amount, false)
		}
	}
	err := w.WriteAll(rows)
	return out.Bytes(), err
}

// minor writes an amount of whole minor units, such as 1234.50.
func minor(a money.Amount) string { return strings.TrimSuffix(a.String(), "0000") }

// The places of a page's columns, in points from the left.
const (
	leftEdge  = 50
	rightEdge = 545
	meterAt   = 255
	fromAt    = 330
	toAt      = 410
)

var meterWords = map[string]string{
	"compute": "compute 计算", "storage": "storage 存储", "egress": "egress 出网流量",
}

// paper is a document that is written from top to bottom, page by page.
type paper struct {
	*pdf.Document
	title string
	y     int // where the next line is, in points from the bottom
}

func newPaper(name, title string) *paper {
	d := &paper{Document: pdf.New(name), title: title}
	d.next(0)
	return d
}

// next goes down, and to a page of its own where there is no room left.
func (d *paper) next(height int) {
	if d.y -= height; d.y >= 60 && d.Pages() > 0 {
		return
	}
	d.AddPage()
	d.y = pdf.Height - 60
	d.Text(leftEdge, d.y, pdf.Bold, 16, d.title)
	if d.Pages() > 1 {
		d.Figure(rightEdge, d.y, 9, strconv.Itoa(d.Pages()))
	}
	d.y -= 26
}

// pair writes a text with what it is in front; nothing where there is no text.
func (d *paper) pair(label, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		d.next(0)
		d.Text(leftEdge, d.y, pdf.Regular, 9, label)
		d.Text(leftEdge+140, d.y, pdf.Regular, 9, line)
		label = ""
		d.y -= 14
	}
}

// parties says from whom and to whom it is.
func (d *paper) parties(issuer string, to billing.Party, accountID string) {
	d.pair("Issued by 开具方", issuer)
	d.pair("Customer 客户", to.Name)
	d.pair("Address 地址", to.Address)
	d.pair("Tax number 税号", to.TaxNumber)
	d.pair("Account 账户", accountID)
}

func (d *paper) simulated(some bool) {
	if some {
		d.pair("", "Lines marked * are for simulated GPUs: there is no hardware.\n带 * 的行为模拟 GPU，没有真实硬件。")
	}
}

// column is the heading of a column, and where it begins.
type column struct {
	x    int
	text string
}

func (d *paper) columns(list ...column) {
	d.next(12)
	for _, c := range list {
		d.Text(c.x, d.y, pdf.Bold, 9, c.text)
	}
	d.rule()
}

func (d *paper) rule() {
	d.y -= 5
	d.Line(leftEdge, d.y, rightEdge, d.y)
}

func (d *paper) total(f pdf.Font, label string, a money.Amount) {
	d.next(15)
	d.Text(meterAt, d.y, f, 9, label)
	d.Figure(rightEdge, d.y, 9, minor(a))
}

func (d *paper) tax(t billing.InvoiceTax, a money.Amount) {
	percent := strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", t.PPM/10_000, t.PPM%10_000), "0"), ".")
	label := fmt.Sprintf("%s %s %s%%", t.Jurisdiction, t.Name, percent)
	if t.Inclusive {
		label += " (included 已含)"
	}
	d.total(pdf.Regular, label, a)
}

// nameOf is a line's lease, marked where its hardware is simulated.
func nameOf(l billing.InvoiceLine) string {
	if l.Simulated {
		return l.LeaseID + " *"
	}
	return l.LeaseID
}

func meterWord(m pricing.Meter) string {
	if word, ok := meterWords[string(m)]; ok {
		return word
	}
	return string(m)
}

// invoicePDF writes an invoice on paper, in English and Chinese.
func invoicePDF(v billing.Invoice) ([]byte, error) {
	zone, err := time.LoadLocation(v.Customer.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("invoice %s: %w", v.Number, err)
	}
	d := newPaper(v.Number, "Invoice 账单 "+v.Number)
	day := func(t time.Time) string { return t.In(zone).Format(time.DateOnly) }
	d.parties(v.Issuer, v.Customer, v.AccountID)
	d.pair("Period 账期", day(v.Start)+" - "+day(v.End.Add(-time.Microsecond))+" ("+v.Customer.TimeZone+")")
	d.pair("Issued 开具日期", day(v.IssuedAt))
	if !v.DueAt.IsZero() {
		// It is the end of the last day.
		d.pair("Due 付款期限", day(v.DueAt.Add(-time.Microsecond)))
	}
	d.pair("Currency 货币", string(v.Currency))
	d.simulated(v.Simulated)
	d.columns(column{leftEdge, "Lease 租约"}, column{meterAt, "Meter 项目"}, column{fromAt, "From 起"}, column{toAt, "To 止"}, column{rightEdge - 70, "Amount 金额"})
	for _, l := range v.Lines {
		d.next(14)
		d.Text(leftEdge, d.y, pdf.Regular, 9, nameOf(l))
		d.Text(meterAt, d.y, pdf.Regular, 9, meterWord(l.Meter))
		if l.Correction {
			d.Text(fromAt, d.y, pdf.Regular, 9, "correction of before 更正以前账期")
		} else {
			d.Text(fromAt, d.y, pdf.Regular, 9, l.From.In(zone).Format("01-02 15:04:05"))
			d.Text(toAt, d.y, pdf.Regular, 9, l.To.In(zone).Format("01-02 15:04:05"))
		}
		d.Figure(rightEdge, d.y, 9, minor(l.Shown+l.Discount))
	}
	d.rule()
	if v.Discount != 0 {
		d.total(pdf.Regular, "Paid by grants 赠金抵扣", -v.Discount)
	}
	d.total(pdf.Regular, "Subtotal 小计", v.Subtotal)
	for _, t := range v.Taxes {
		d.tax(t, t.Amount)
	}
	d.total(pdf.Bold, "Total 合计 "+string(v.Currency), v.Total)
	d.next(30)
	d.Text(leftEdge, d.y, pdf.Regular, 8, fmt.Sprintf("The exact sum of the lines, less grants, is %s; it is rounded once. 各行减去赠金的精确合计为 %s，只舍入一次。", v.Exact, v.Exact))
	return d.Bytes(), nil
}

// creditPDF writes a credit note on paper, in English and Chinese, with what its
// invoice says of the lines.
func creditPDF(n billing.CreditNote, v billing.Invoice) ([]byte, error) {
	zone, err := time.LoadLocation(v.Customer.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("credit note %s: %w", n.Number, err)
	}
	d := newPaper(n.Number, "Credit note 贷记通知 "+n.Number)
	d.parties(v.Issuer, v.Customer, n.AccountID)
	d.pair("On invoice 对应账单", n.Invoice+" ("+v.IssuedAt.In(zone).Format(time.DateOnly)+")")
	d.pair("Issued 开具日期", n.IssuedAt.In(zone).Format(time.DateOnly))
	d.pair("Currency 货币", string(n.Currency))
	d.pair("Reason 原因", n.Reason)
	if n.Refunded {
		d.pair("", "It was paid out, and not kept as balance. 已退款，未计入余额。")
	}
	d.simulated(v.Simulated)
	d.columns(column{leftEdge, "Line of the invoice 账单行"}, column{meterAt + 40, "Meter 项目"}, column{toAt, "Invoiced 账单金额"}, column{rightEdge - 40, "Credit 退回"})
	var sum money.Amount
	taxes := make([]money.Amount, len(v.Taxes))
	for _, l := range n.Lines {
		if l.Position < 0 || l.Position >= len(v.Lines) || len(l.Tax) != len(v.Taxes) {
			return nil, fmt.Errorf("credit note %s: line %d is not one of invoice %s", n.Number, l.Position, v.Number)
		}
		of := v.Lines[l.Position]
		d.next(14)
		d.Text(leftEdge, d.y, pdf.Regular, 9, strconv.Itoa(l.Position+1)+"  "+nameOf(of))
		d.Text(meterAt+40, d.y, pdf.Regular, 9, meterWord(of.Meter))
		d.Figure(toAt+70, d.y, 9, minor(of.Shown))
		d.Figure(rightEdge, d.y, 9, minor(l.Amount))
		sum += l.Amount
		for i, t := range l.Tax {
			taxes[i] += t
		}
	}
	d.rule()
	d.total(pdf.Regular, "Subtotal 小计", sum)
	for i, t := range v.Taxes {
		d.tax(t, taxes[i])
	}
	d.total(pdf.Bold, "Total credited 退回合计 "+string(n.Currency), n.Total)
	d.next(30)
	d.Text(leftEdge, d.y, pdf.Regular, 8, "The invoice stays as it is; this note takes back a part of it. 原账单保持不变，本通知退回其中一部分。")
	return d.Bytes(), nil
}
