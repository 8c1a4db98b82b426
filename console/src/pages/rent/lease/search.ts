/** Which part of a lease's page is open. */
export const leaseSearch = (s: Record<string, unknown>): { tab?: string } => (typeof s.tab === "string" && /^[a-z]+$/i.test(s.tab) ? { tab: s.tab } : {});
