import { Box, Group, Loader, Table, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { flexRender, getCoreRowModel, getSortedRowModel, useReactTable, type ColumnDef, type SortingState } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

// A column of any type of value.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Columns<T> = ColumnDef<T, any>[];

export type DataTableProps<T> = {
  label: string; // what the table lists, for screen readers
  rows: T[];
  columns: Columns<T>;
  rowKey: (row: T) => string;
  onOpen?: (row: T) => void; // by click, or Enter on the row
  more?: () => void; // called when the end of the rows comes into sight
  loading?: boolean;
  height?: number | string;
};

const rowHeight = 44;

/** A table that draws only the rows in sight, however many there are. */
export function DataTable<T>({ label, rows, columns, rowKey, onOpen, more, loading, height = "calc(100dvh - 260px)" }: DataTableProps<T>) {
  const { t } = useTranslation();
  const [sorting, setSorting] = useState<SortingState>([]);
  const table = useReactTable({
    data: rows,
    columns,
    state: { sorting },
    onSortingChange: setSorting,
    getRowId: rowKey,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  const scroller = useRef<HTMLDivElement>(null);
  const list = table.getRowModel().rows;
  const virtual = useVirtualizer({ count: list.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 12 });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    // Rows are in order only when all of them are there.
    if (more && !loading && (last >= list.length - 1 || sorting.length > 0)) more();
  }, [more, loading, last, list.length, sorting]);
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <Box ref={scroller} mah={height} tabIndex={0} role="region" aria-label={label} style={{ position: "relative", overflow: "auto", border: "1px solid var(--mantine-color-default-border)", borderRadius: "var(--mantine-radius-md)" }}>
      <Table stickyHeader highlightOnHover={!!onOpen} verticalSpacing="xs" horizontalSpacing="md" aria-rowcount={list.length + 1}>
        <caption>
          <VisuallyHidden>{label}</VisuallyHidden>
        </caption>
        <Table.Thead>
          {table.getHeaderGroups().map((group) => (
            <Table.Tr key={group.id}>
              {group.headers.map((h) => {
                const sorted = h.column.getIsSorted();
                const text = flexRender(h.column.columnDef.header, h.getContext());
                return (
                  <Table.Th key={h.id} aria-sort={sorted === "asc" ? "ascending" : sorted === "desc" ? "descending" : undefined} style={{ whiteSpace: "nowrap" }}>
                    {h.column.getCanSort() && h.column.accessorFn ? (
                      <UnstyledButton onClick={h.column.getToggleSortingHandler()} fz="inherit" fw="inherit">
                        <Group gap={4} wrap="nowrap">
                          {text}
                          {sorted === "asc" && <IconArrowUp size={14} aria-hidden />}
                          {sorted === "desc" && <IconArrowDown size={14} aria-hidden />}
                        </Group>
                      </UnstyledButton>
                    ) : (
                      text
                    )}
                  </Table.Th>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Thead>
        <Table.Tbody>
          {above > 0 && (
            <Table.Tr aria-hidden>
              <Table.Td colSpan={columns.length} p={0} h={above} />
            </Table.Tr>
          )}
          {items.map((item) => {
            const row = list[item.index]!;
            return (
              <Table.Tr
                key={row.id}
                ref={virtual.measureElement}
                data-index={item.index}
                aria-rowindex={item.index + 2}
                h={rowHeight}
                tabIndex={onOpen ? 0 : undefined}
                style={onOpen ? { cursor: "pointer" } : undefined}
                onClick={onOpen && ((e) => !(e.target as HTMLElement).closest("a,button,input,label") && onOpen(row.original))}
                onKeyDown={onOpen && ((e) => e.key === "Enter" && e.target === e.currentTarget && onOpen(row.original))}
              >
                {row.getVisibleCells().map((cell) => (
                  <Table.Td key={cell.id} style={{ whiteSpace: "nowrap" }}>{flexRender(cell.column.columnDef.cell, cell.getContext())}</Table.Td>
                ))}
              </Table.Tr>
            );
          })}
          {below > 0 && (
            <Table.Tr aria-hidden>
              <Table.Td colSpan={columns.length} p={0} h={below} />
            </Table.Tr>
          )}
        </Table.Tbody>
      </Table>
      {loading && (
        <Group justify="center" p="sm">
          <Loader size="sm" role="status" aria-label={t("loading")} />
        </Group>
      )}
    </Box>
  );
}
