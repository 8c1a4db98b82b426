package account

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Where anybody can sign up, anybody could ask in this way who else has.
func TestARenterCannotTryAListOfAddressesByAddingUsers(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	add := func(p Principal, email string) error {
		_, err := c.CreateUser(t.Context(), p, CreateUser{Email: email, Role: Viewer, Password: password})
		return err
	}
	for range 30 {
		wantCode(t, add(c.ada, "op@example.com"), "email_taken")
	}
	wantCode(t, add(c.ada, "op@example.com"), "user_throttled")
	wantCode(t, add(c.ada, "new@example.com"), "user_throttled")
	for i := range 40 {
		if err := add(c.oper, fmt.Sprintf("o%d@example.com", i)); err != nil {
			t.Fatalf("an operator: %v", err)
		}
	}
}
