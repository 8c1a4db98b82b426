import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { confirm, type Question } from "../../../ui/confirm";
import { useErrorText } from "../../../ui/errors";

/** Removes things of a list after asking, and reads the list again. */
export function useRemoval(list: string, remove: (id: string) => Promise<unknown>) {
  const queries = useQueryClient();
  const errorText = useErrorText();
  const run = useMutation({
    mutationFn: remove,
    onError: (e) => {
      const { title, text } = errorText(e);
      notifications.show({ color: "red", title, message: text });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [list] }),
  });
  return {
    pending: run.isPending ? run.variables : undefined,
    ask: async (id: string, question: Question) => {
      if (await confirm({ danger: true, ...question })) run.mutate(id);
    },
  };
}
