import { useInfiniteQuery, type QueryKey } from "@tanstack/react-query";

type Answer<T> = { items: T[] | null; next_cursor?: string };

/** Reads a list page by page; give more and loading to a DataTable. */
export function usePages<T>(queryKey: QueryKey, read: (cursor: string | undefined, signal: AbortSignal) => Promise<Answer<T>>, options: { refetchInterval?: number; enabled?: boolean } = {}) {
  const q = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => read(pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor || undefined,
    ...options,
    // Each time all pages are read again: the more there are, the rarer.
    refetchInterval: (q) => (options.refetchInterval ?? 0) * (q.state.data?.pages.length ?? 1) || false,
  });
  return {
    rows: q.data?.pages.flatMap((p) => p.items ?? []) ?? [],
    error: q.error,
    retry: () => void q.refetch(),
    first: q.isPending, // nothing has come yet
    loading: q.isFetchingNextPage,
    more: q.hasNextPage && !q.isFetchingNextPage ? () => void q.fetchNextPage() : undefined,
  };
}
