import { useSyncExternalStore } from "react";

// The token is kept where only pages of this very origin can read it. A cookie
// would go to every port of this host, and instances that strangers rent may
// listen on some of them.
const key = "suanli.token";

const listeners = new Set<() => void>();
const tell = () => listeners.forEach((f) => f());

// Another tab signed in or out.
window.addEventListener("storage", (e) => {
  if (e.key === key || e.key === null) tell();
});

export const session = {
  token: (): string | null => localStorage.getItem(key),
  begin(token: string) {
    localStorage.setItem(key, token);
    tell();
  },
  end() {
    localStorage.removeItem(key);
    tell();
  },
  subscribe(f: () => void) {
    listeners.add(f);
    return () => void listeners.delete(f);
  },
};

/** The token of who is signed in, or null. */
export const useToken = () => useSyncExternalStore(session.subscribe, session.token);
