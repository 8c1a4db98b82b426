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
)

// invoiceCSV writes an invoice as a table: its lines, each followed by
// what grants paid of it, then one row for the rounding and one for each tax that is added, so that the column "amount" adds up
// to the total.
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

// invoicePDF writes an invoice on paper, in English and Chinese.
func invoicePDF(v billing.Invoice) ([]byte, error) {
	zone, err := time.LoadLocation(v.Customer.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("invoice %s: %w", v.Number, err)
	}
	d := pdf.New(v.Number)
	y := 0
	next := func(height int) {
		if y -= height; y >= 60 && d.Pages() > 0 {
			return
		}
		d.AddPage()
		y = pdf.Height - 60
		d.Text(leftEdge, y, pdf.Bold, 16, "Invoice 账单 "+v.Number)
		if d.Pages() > 1 {
			d.Figure(rightEdge, y, 9, strconv.Itoa(d.Pages()))
		}
		y -= 26
	}
	next(0)
	pair := func(label, text string) {
		for _, line := range strings.Split(text, "\n") {
			next(0)
			d.Text(leftEdge, y, pdf.Regular, 9, label)
			d.Text(leftEdge+140, y, pdf.Regular, 9, line)
			label = ""
			y -= 14
		}
	}
	day := func(t time.Time) string { return t.In(zone).Format(time.DateOnly) }
	if v.Issuer != "" {
		pair("Issued by 开具方", v.Issuer)
	}
	pair("Customer 客户", v.Customer.Name)
	if v.Customer.Address != "" {
		pair("Address 地址", v.Customer.Address)
	}
	if v.Customer.TaxNumber != "" {
		pair("Tax number 税号", v.Customer.TaxNumber)
	}
	pair("Account 账户", v.AccountID)
	pair("Period 账期", day(v.Start)+" - "+day(v.End.Add(-time.Microsecond))+" ("+v.Customer.TimeZone+")")
	pair("Issued 开具日期", day(v.IssuedAt))
	pair("Currency 货币", string(v.Currency))
	if v.Simulated {
		pair("", "Lines marked * are for simulated GPUs: there is no hardware.\n带 * 的行为模拟 GPU，没有真实硬件。")
	}
	next(12)
	for _, c := range []struct {
		x    int
		text string
	}{{leftEdge, "Lease 租约"}, {meterAt, "Meter 项目"}, {fromAt, "From 起"}, {toAt, "To 止"}, {rightEdge - 70, "Amount 金额"}} {
		d.Text(c.x, y, pdf.Bold, 9, c.text)
	}
	y -= 5
	d.Line(leftEdge, y, rightEdge, y)
	for _, l := range v.Lines {
		next(14)
		name := l.LeaseID
		if l.Simulated {
			name += " *"
		}
		d.Text(leftEdge, y, pdf.Regular, 9, name)
		word, ok := meterWords[string(l.Meter)]
		if !ok {
			word = string(l.Meter)
		}
		d.Text(meterAt, y, pdf.Regular, 9, word)
		if l.Correction {
			d.Text(fromAt, y, pdf.Regular, 9, "correction of before 更正以前账期")
		} else {
			d.Text(fromAt, y, pdf.Regular, 9, l.From.In(zone).Format("01-02 15:04:05"))
			d.Text(toAt, y, pdf.Regular, 9, l.To.In(zone).Format("01-02 15:04:05"))
		}
		d.Figure(rightEdge, y, 9, minor(l.Shown+l.Discount))
	}
	y -= 5
	d.Line(leftEdge, y, rightEdge, y)
	total := func(f pdf.Font, label string, a money.Amount) {
		next(15)
		d.Text(meterAt, y, f, 9, label)
		d.Figure(rightEdge, y, 9, minor(a))
	}
	if v.Discount != 0 {
		total(pdf.Regular, "Paid by grants 赠金抵扣", -v.Discount)
	}
	total(pdf.Regular, "Subtotal 小计", v.Subtotal)
	for _, t := range v.Taxes {
		label := fmt.Sprintf("%s %s %s%%", t.Jurisdiction, t.Name, strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", t.PPM/10_000, t.PPM%10_000), "0"), "."))
		if t.Inclusive {
			label += " (included 已含)"
		}
		total(pdf.Regular, label, t.Amount)
	}
	total(pdf.Bold, "Total 合计 "+string(v.Currency), v.Total)
	next(30)
	d.Text(leftEdge, y, pdf.Regular, 8, fmt.Sprintf("The exact sum of the lines, less grants, is %s; it is rounded once. 各行减去赠金的精确合计为 %s，只舍入一次。", v.Exact, v.Exact))
	return d.Bytes(), nil
}

// creditPDF writes a credit note on paper, in English and Chinese, with what its
// invoice says of the lines.
func creditPDF(n billing.CreditNote, v billing.Invoice) ([]byte, error) {
	zone, err := time.LoadLocation(v.Customer.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("credit note %s: %w", n.Number, err)
	}
	d := pdf.New(n.Number)
	y := 0
	next := func(height int) {
		if y -= height; y >= 60 && d.Pages() > 0 {
			return
		}
		d.AddPage()
		y = pdf.Height - 60
		d.Text(leftEdge, y, pdf.Bold, 16, "Credit note 贷记通知 "+n.Number)
		if d.Pages() > 1 {
			d.Figure(rightEdge, y, 9, strconv.Itoa(d.Pages()))
		}
		y -= 26
	}
	next(0)
	pair := func(label, text string) {
		for _, line := range strings.Split(text, "\n") {
			next(0)
			d.Text(leftEdge, y, pdf.Regular, 9, label)
			d.Text(leftEdge+140, y, pdf.Regular, 9, line)
			label = ""
			y -= 14
		}
	}
	for _, p := range [][2]string{
		{"Issued by 开具方", v.Issuer}, {"Customer 客户", v.Customer.Name}, {"Address 地址", v.Customer.Address}, {"Tax number 税号", v.Customer.TaxNumber}, {"Account 账户", n.AccountID},
		{"On invoice 对应账单", n.Invoice + " (" + v.IssuedAt.In(zone).Format(time.DateOnly) + ")"}, {"Issued 开具日期", n.IssuedAt.In(zone).Format(time.DateOnly)},
		{"Currency 货币", string(n.Currency)}, {"Reason 原因", n.Reason},
	} {
		if p[1] != "" {
			pair(p[0], p[1])
		}
	}
	if n.Refunded {
		pair("", "It was paid out, and not kept as balance. 已退款，未计入余额。")
	}
	if v.Simulated {
		pair("", "Lines marked * are for simulated GPUs: there is no hardware.\n带 * 的行为模拟 GPU，没有真实硬件。")
	}
	next(12)
	for _, c := range []struct {
		x    int
		text string
	}{{leftEdge, "Line of the invoice 账单行"}, {meterAt + 40, "Meter 项目"}, {toAt, "Invoiced 账单金额"}, {rightEdge - 40, "Credit 退回"}} {
		d.Text(c.x, y, pdf.Bold, 9, c.text)
	}
	y -= 5
	d.Line(leftEdge, y, rightEdge, y)
	var sum money.Amount
	taxes := make([]money.Amount, len(v.Taxes))
	for _, l := range n.Lines {
		if l.Position < 0 || l.Position >= len(v.Lines) || len(l.Tax) != len(v.Taxes) {
			return nil, fmt.Errorf("credit note %s: line %d is not one of invoice %s", n.Number, l.Position, v.Number)
		}
		of := v.Lines[l.Position]
		next(14)
		name := strconv.Itoa(l.Position+1) + "  " + of.LeaseID
		if of.Simulated {
			name += " *"
		}
		d.Text(leftEdge, y, pdf.Regular, 9, name)
		word, ok := meterWords[string(of.Meter)]
		if !ok {
			word = string(of.Meter)
		}
		d.Text(meterAt+40, y, pdf.Regular, 9, word)
		d.Figure(toAt+70, y, 9, minor(of.Shown))
		d.Figure(rightEdge, y, 9, minor(l.Amount))
		sum += l.Amount
		for i, t := range l.Tax {
			taxes[i] += t
		}
	}
	y -= 5
	d.Line(leftEdge, y, rightEdge, y)
	total := func(f pdf.Font, label string, a money.Amount) {
		next(15)
		d.Text(meterAt, y, f, 9, label)
		d.Figure(rightEdge, y, 9, minor(a))
	}
	total(pdf.Regular, "Subtotal 小计", sum)
	for i, t := range v.Taxes {
		label := fmt.Sprintf("%s %s %s%%", t.Jurisdiction, t.Name, strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", t.PPM/10_000, t.PPM%10_000), "0"), "."))
		if t.Inclusive {
			label += " (included 已含)"
		}
		total(pdf.Regular, label, taxes[i])
	}
	total(pdf.Bold, "Total credited 退回合计 "+string(n.Currency), n.Total)
	next(30)
	d.Text(leftEdge, y, pdf.Regular, 8, "The invoice stays as it is; this note takes back a part of it. 原账单保持不变，本通知退回其中一部分。")
	return d.Bytes(), nil
}
