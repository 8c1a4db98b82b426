import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useState, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";

export type Question = {
  title: string;
  text: string;
  action: string; // what the button says
  danger?: boolean;
  /** What has to be typed before something is lost for good. */
  type?: string;
};

let open: { question: Question; answer: (yes: boolean) => void } | null = null;
const listeners = new Set<() => void>();
const set = (next: typeof open) => {
  open = next;
  listeners.forEach((f) => f());
};

/** Asks before something that cannot be undone; resolves to whether to go on. */
export function confirm(question: Question): Promise<boolean> {
  open?.answer(false);
  return new Promise((done) => set({ question, answer: (yes) => (set(null), done(yes)) }));
}

/** Where confirm shows its questions; once in the page. */
export function ModalsRoot() {
  const { t } = useTranslation();
  const now = useSyncExternalStore(
    (f) => (listeners.add(f), () => void listeners.delete(f)),
    () => open,
  );
  const [typed, setTyped] = useState("");
  const close = (yes: boolean) => {
    setTyped("");
    now?.answer(yes);
  };
  const q = now?.question;
  const ready = !q?.type || typed.trim() === q.type;
  return (
    <Modal opened={!!q} onClose={() => close(false)} title={q?.title} centered closeButtonProps={{ "aria-label": t("action.close") }}>
      {q && (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            if (ready) close(true);
          }}
        >
          <Stack>
            <Text>{q.text}</Text>
            {q.type && <TextInput data-autofocus label={t("confirm.type", { text: q.type })} value={typed} onChange={(e) => setTyped(e.currentTarget.value)} autoComplete="off" />}
            <Group justify="flex-end">
              <Button variant="default" onClick={() => close(false)}>
                {t("action.cancel")}
              </Button>
              <Button type="submit" color={q.danger ? "red" : undefined} disabled={!ready} data-autofocus={!q.type || undefined}>
                {q.action}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
