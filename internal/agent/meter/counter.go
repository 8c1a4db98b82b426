package meter

// Counter adds up a kernel counter that starts again from zero when the host
// reboots or its rules are written anew. Its zero value is ready.
type Counter struct {
	Total int64 `json:"total"` // bytes since the lease began on this host
	Last  int64 `json:"last"`  // the latest reading
}

// Read takes in a reading.
func (c *Counter) Read(raw int64) {
	if raw < 0 {
		return
	}
	if raw < c.Last {
		c.Last = 0 // it began again; what was between the last reading and that is lost to us
	}
	c.Total += raw - c.Last
	c.Last = raw
}

// Reset says that the kernel's counter is gone and the next one starts from zero.
func (c *Counter) Reset() { c.Last = 0 }
