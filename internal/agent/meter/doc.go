// Package meter turns readings into amounts that never go down, and decides when
// an instance is idle. It is pure: readings and times come in as values.
package meter
