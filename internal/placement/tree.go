package placement

import "math/bits"

// amounts is what a host has beside GPUs: CPU, memory, disk, network, ports.
type amounts [5]int64

func (a amounts) covers(b amounts) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}

func (a amounts) minus(b amounts) amounts {
	for i := range a {
		a[i] -= b[i]
	}
	return a
}

func (a amounts) atLeast(b amounts) amounts {
	for i := range a {
		a[i] = max(a[i], b[i])
	}
	return a
}

// tree orders classes by what they have free beside GPUs, the tightest first, and
// knows for each subtree the most of everything in it, so that a search leaves out
// what cannot hold a request. It is a treap; a class's own hash is its priority, so
// that its shape depends on nothing but what is in it.
type tree struct {
	class       *class
	most        amounts
	left, right *tree
}

func (t *tree) update() *tree {
	t.most = t.class.free
	if t.left != nil {
		t.most = t.most.atLeast(t.left.most)
	}
	if t.right != nil {
		t.most = t.most.atLeast(t.right.most)
	}
	return t
}

func (c *class) before(o *class) bool {
	if c.free != o.free {
		for i := range c.free {
			if c.free[i] != o.free[i] {
				return c.free[i] < o.free[i]
			}
		}
	}
	return c.key < o.key
}

func (t *tree) insert(c *class) *tree {
	switch {
	case t == nil:
		return (&tree{class: c}).update()
	case c.before(t.class):
		t.left = t.left.insert(c)
		if t.left.class.hash > t.class.hash {
			l := t.left
			t.left, l.right = l.right, t
			t.update()
			return l.update()
		}
	default:
		t.right = t.right.insert(c)
		if t.right.class.hash > t.class.hash {
			r := t.right
			t.right, r.left = r.left, t
			t.update()
			return r.update()
		}
	}
	return t.update()
}

func (t *tree) remove(c *class) *tree {
	switch {
	case t == nil:
		return nil
	case t.class == c:
		return join(t.left, t.right)
	case c.before(t.class):
		t.left = t.left.remove(c)
	default:
		t.right = t.right.remove(c)
	}
	return t.update()
}

func join(a, b *tree) *tree {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.class.hash > b.class.hash:
		a.right = join(a.right, b)
		return a.update()
	}
	b.left = join(a, b.left)
	return b.update()
}

// walk visits classes that have at least need free, the tightest first, until visit
// says false.
func (t *tree) walk(need amounts, visit func(*class) bool) bool {
	if t == nil || !t.most.covers(need) {
		return true
	}
	if t.class.free[0] >= need[0] && !t.left.walk(need, visit) {
		return false
	}
	if t.class.free.covers(need) && !visit(t.class) {
		return false
	}
	return t.right.walk(need, visit)
}

// hashOf is FNV-1a, mixed once more.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= bits.RotateLeft64(h, 29)
	return h * 0x9e3779b97f4a7c15
}
