// Package objectstore keeps large things in a bucket of any service that speaks S3:
// uploads in parts that others make by signed URLs, so that a host can write one
// object, or read one, and never holds the bucket's keys. It knows nothing of what
// the objects are, keeps no state of its own, and imports only fault.
package objectstore
