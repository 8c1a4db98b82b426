import type { ReactNode } from "react";
import { DataTable, type DataTableProps } from "./DataTable";
import { ErrorPanel } from "./errors";
import type { usePages } from "./pages";

type Props<T> = Omit<DataTableProps<T>, "rows" | "more" | "loading"> & {
  list: ReturnType<typeof usePages<T>>;
  empty: ReactNode; // instead of a table without rows
};

/** A list that is read page by page: as a table, as what went wrong, or as what would be here. */
export function PagedTable<T>({ list, empty, ...table }: Props<T>) {
  if (list.error) return <ErrorPanel error={list.error} retry={list.retry} />;
  if (!list.first && list.rows.length === 0) return empty;
  return <DataTable {...table} rows={list.rows} more={list.more} loading={list.first || list.loading} />;
}
