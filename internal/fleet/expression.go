package fleet

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"suanli.dev/internal/fault"
)

// The search language, in the notation of the Go specification:
//
//	Expression = And { ( "or" | "||" ) And } .
//	And        = Not { ( "and" | "&&" ) Not } .
//	Not        = ( "not" | "!" ) Not | "(" Expression ")" | Comparison .
//	Comparison = field                                    // of yes/no
//	           | field ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" | "~" ) value
//	           | field [ "not" ] "in" "(" value { "," value } ")" .
//	value      = number | "text" | 'text' | version | "true" | "false" .
//
// Words are the same in any case, and so is text that is compared. "~" means
// that a text contains another.

// node is a checked expression. Nodes are logic, negation and comparison.
type node interface {
	// perRow reports whether the value differs between the bundles of a group.
	perRow() bool
}

type logic struct {
	or   bool
	kids []node
}

type negation struct{ kid node }

type comparison struct {
	field   *field
	op      string // "=", "!=", "<", "<=", ">", ">=", "in", "~"
	numbers []int64
	texts   []string // lower case
}

func (n logic) perRow() bool {
	for _, k := range n.kids {
		if k.perRow() {
			return true
		}
	}
	return false
}
func (n negation) perRow() bool   { return n.kid.perRow() }
func (n comparison) perRow() bool { return n.field.row }

// Bounds of an expression; beyond them it is refused, so that no query can take
// the search of others away.
const (
	maxExpression = 2000 // bytes
	maxDepth      = 40
	maxList       = 200
	maxTerms      = 100
)

// Check reports whether an expression is one, as a fault "bad_expression" with
// the 1-based character where it is not. The empty expression is one.
func Check(expression string) error {
	_, err := parse(expression)
	return err
}

type token struct {
	kind byte // 'i' identifier, 'n' number or version, 's' text, 'o' operator or sign, 0 end
	text string
	pos  int // 1-based character
}

func (t token) String() string {
	switch t.kind {
	case 0:
		return "the end"
	case 's':
		return "the text \"" + t.text + "\""
	}
	return "\"" + t.text + "\""
}

func wrong(pos int, format string, args ...any) error {
	f := fault.New(fault.Invalid, "bad_expression", "search expression, character %d: %s", pos, fmt.Sprintf(format, args...))
	f.Location, f.Position = "query.where", pos
	return f
}

func lex(s string) ([]token, error) {
	if len(s) > maxExpression {
		return nil, wrong(1, "it has %d bytes; up to %d are read", len(s), maxExpression)
	}
	if !utf8.ValidString(s) {
		return nil, wrong(1, "it is not UTF-8 text")
	}
	r := []rune(s)
	var out []token
	for i := 0; i < len(r); {
		c := r[i]
		start := i
		add := func(kind byte, end int) {
			out = append(out, token{kind, string(r[start:end]), start + 1})
			i = end
		}
		switch {
		case unicode.IsSpace(c):
			i++
		case c == '_' || c < 128 && unicode.IsLetter(c):
			for i < len(r) && (r[i] == '_' || r[i] < 128 && (unicode.IsLetter(r[i]) || unicode.IsDigit(r[i]))) {
				i++
			}
			add('i', i)
		case c >= '0' && c <= '9':
			for i < len(r) && (r[i] >= '0' && r[i] <= '9' || r[i] == '.') {
				i++
			}
			if i < len(r) && (r[i] == '_' || unicode.IsLetter(r[i])) {
				return nil, wrong(i+1, "%q follows a number; numbers have no units here, the field's name says the unit", string(r[i]))
			}
			add('n', i)
		case c == '"' || c == '\'':
			for i++; i < len(r) && r[i] != c; i++ {
			}
			if i == len(r) {
				return nil, wrong(start+1, "this text has no closing %s", string(c))
			}
			out = append(out, token{'s', string(r[start+1 : i]), start + 1})
			i++
		default:
			two := string(r[i:min(i+2, len(r))])
			switch two {
			case "==", "!=", "<>", "<=", ">=", "&&", "||":
				add('o', i+2)
				continue
			}
			if strings.ContainsRune("=<>~(),!", c) {
				add('o', i+1)
				continue
			}
			switch c {
			case '-':
				return nil, wrong(i+1, "\"-\" cannot stand here; put text in quotes, like region = \"cn-east\"")
			case '$', '¥', '￥', '€':
				return nil, wrong(i+1, "prices are plain numbers in the cloud's currency, like price_per_hour < 1.5")
			case '“', '”', '‘', '’':
				return nil, wrong(i+1, "use straight quotes, \" or '")
			}
			return nil, wrong(i+1, "%q cannot stand here", string(c))
		}
	}
	return append(out, token{pos: len(r) + 1}), nil
}

type parser struct {
	tokens []token
	depth  int
	terms  int
}

// parse returns nil for an expression that is empty.
func parse(s string) (node, error) {
	tokens, err := lex(s)
	if err != nil || len(tokens) == 1 {
		return nil, err
	}
	p := &parser{tokens: tokens}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != 0 {
		hint := "; join comparisons with \"and\" or \"or\""
		if t.text == ")" {
			hint = "; there is no \"(\" for it"
		}
		return nil, wrong(t.pos, "%s was not expected here%s", t, hint)
	}
	return n, nil
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != 0 {
		p.tokens = p.tokens[1:]
	}
	return t
}

// word takes the next token if it is one of words or signs.
func (p *parser) word(words ...string) bool {
	t := p.peek()
	for _, w := range words {
		if (t.kind == 'i' || t.kind == 'o') && strings.EqualFold(t.text, w) {
			p.next()
			return true
		}
	}
	return false
}

func (p *parser) or() (node, error) { return p.list(true, p.and, "or", "||") }

func (p *parser) and() (node, error) { return p.list(false, p.not, "and", "&&") }

func (p *parser) list(or bool, part func() (node, error), words ...string) (node, error) {
	first, err := part()
	if err != nil {
		return nil, err
	}
	kids := []node{first}
	for p.word(words...) {
		n, err := part()
		if err != nil {
			return nil, err
		}
		kids = append(kids, n)
	}
	if len(kids) == 1 {
		return first, nil
	}
	return logic{or: or, kids: kids}, nil
}

func (p *parser) not() (node, error) {
	t := p.peek()
	if p.depth++; p.depth > maxDepth {
		return nil, wrong(t.pos, "it is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	if p.word("not", "!") {
		n, err := p.not()
		return negation{n}, err
	}
	if p.word("(") {
		n, err := p.or()
		if err != nil {
			return nil, err
		}
		if end := p.peek(); !p.word(")") {
			return nil, wrong(end.pos, "%s was found where the \")\" for the \"(\" at character %d was expected", end, t.pos)
		}
		return n, nil
	}
	return p.comparison()
}

func (p *parser) comparison() (node, error) {
	t := p.next()
	if p.terms++; p.terms > maxTerms {
		return nil, wrong(t.pos, "it has more than %d comparisons", maxTerms)
	}
	if t.kind != 'i' {
		return nil, wrong(t.pos, "%s was found where a field was expected, like gpu_model", t)
	}
	f, ok := lookupField(t.text)
	if !ok {
		if near := suggestion(t.text); near != "" {
			return nil, wrong(t.pos, "there is no field %q; did you mean %s?", t.text, near)
		}
		return nil, wrong(t.pos, "there is no field %q; GET /v1/offers/fields lists them", t.text)
	}
	op := p.peek()
	negated := false
	if op.kind == 'i' && strings.EqualFold(op.text, "not") {
		p.next()
		if after := p.peek(); after.kind != 'i' || !strings.EqualFold(after.text, "in") {
			return nil, wrong(after.pos, "%s was found after \"not\" where \"in\" was expected", after)
		}
		negated, op = true, p.peek()
	}
	if op.kind == 'i' && strings.EqualFold(op.text, "in") {
		p.next()
		c, err := p.in(f)
		if err != nil || !negated {
			return c, err
		}
		return negation{c}, nil
	}
	switch {
	case op.kind == 'o' && strings.Contains(" = == != <> < <= > >= ~ ", " "+op.text+" "):
		p.next()
	case f.kind == flag:
		return comparison{field: f, op: "=", numbers: []int64{1}}, nil
	default:
		return nil, wrong(op.pos, "%s was found where a comparison of %s was expected, like %s", op, f.name, example(f))
	}
	c := comparison{field: f, op: op.text}
	switch c.op {
	case "==":
		c.op = "="
	case "<>":
		c.op = "!="
	}
	if (c.op[0] == '<' || c.op[0] == '>') && (f.kind == text || f.kind == flag) {
		return nil, wrong(op.pos, "%s is %s and has no order; use = or !=, like %s", f.name, kindNames[f.kind], example(f))
	}
	if c.op == "~" && f.kind != text {
		return nil, wrong(op.pos, "%s is a %s; \"~\" looks for a part of a text", f.name, kindNames[f.kind])
	}
	if err := p.value(&c); err != nil {
		return nil, err
	}
	return c, nil
}

func (p *parser) in(f *field) (node, error) {
	open := p.peek()
	if !p.word("(") {
		return nil, wrong(open.pos, "%s was found where \"(\" was expected: %s in (…, …)", open, f.name)
	}
	c := comparison{field: f, op: "in"}
	for {
		if len(c.numbers)+len(c.texts) == maxList {
			return nil, wrong(p.peek().pos, "the list has more than %d values", maxList)
		}
		if err := p.value(&c); err != nil {
			return nil, err
		}
		if p.word(",") {
			continue
		}
		if end := p.peek(); !p.word(")") {
			return nil, wrong(end.pos, "%s was found where \",\" or \")\" was expected", end)
		}
		return c, nil
	}
}

func example(f *field) string {
	switch f.kind {
	case text:
		return f.name + " = \"…\""
	case version:
		return f.name + " >= 12.4"
	case flag:
		return "not " + f.name
	}
	return f.name + " >= 2"
}

// value reads the next token as a value of c's field.
func (p *parser) value(c *comparison) error {
	t := p.next()
	f := c.field
	switch f.kind {
	case text:
		if t.kind == 's' {
			c.texts = append(c.texts, strings.ToLower(t.text))
			return nil
		}
		if t.kind == 'i' || t.kind == 'n' {
			return wrong(t.pos, "%s is text; put the value in quotes: \"%s\"", f.name, t.text)
		}
	case flag:
		if t.kind == 'i' {
			switch strings.ToLower(t.text) {
			case "true", "yes":
				c.numbers = append(c.numbers, 1)
				return nil
			case "false", "no":
				c.numbers = append(c.numbers, 0)
				return nil
			}
		}
		return wrong(t.pos, "%s was found where true or false was expected; or write just %s, or not %s", t, f.name, f.name)
	case version:
		if t.kind == 'n' || t.kind == 's' {
			v := versionNumber(strings.TrimSpace(t.text))
			if v == unknown {
				return wrong(t.pos, "%s is not a version like 12.4", t)
			}
			c.numbers = append(c.numbers, v)
			return nil
		}
	case number:
		if t.kind == 'n' {
			v, why := scaled(t.text, f.digits)
			if why != "" {
				return wrong(t.pos, "%q %s", t.text, why)
			}
			c.numbers = append(c.numbers, v)
			return nil
		}
		if t.kind == 's' {
			return wrong(t.pos, "%s is a number; write it without quotes", f.name)
		}
	}
	return wrong(t.pos, "%s was found where a value of %s (%s) was expected", t, f.name, kindNames[f.kind])
}

// scaled reads a decimal as an integer times 10^digits, or says what is wrong.
func scaled(s string, digits int) (v int64, why string) {
	whole, frac, dotted := strings.Cut(s, ".")
	if dotted && (frac == "" || strings.Contains(frac, ".")) {
		return 0, "is not a number"
	}
	frac = strings.TrimRight(frac, "0")
	if len(frac) > digits {
		if digits == 0 {
			return 0, "is not a whole number, which this field is"
		}
		return 0, fmt.Sprintf("has too many decimals; this field has up to %d", digits)
	}
	for _, c := range whole + frac + strings.Repeat("0", digits-len(frac)) {
		if v > 1e17 {
			return 0, "is too large"
		}
		v = v*10 + int64(c-'0')
	}
	return v, ""
}
