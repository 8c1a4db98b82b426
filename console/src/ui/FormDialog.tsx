import { Button, Checkbox, Group, Modal, NumberInput, PasswordInput, Select, Stack, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { DateTimePicker } from "@mantine/dates";
import { useForm } from "@mantine/form";
import { useEffect, useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { QueryKey } from "@tanstack/react-query";
import { ApiError } from "../api/client";
import { useAct } from "./act";
import { Dates } from "./Dates";
import { ErrorPanel } from "./errors";

// What a field holds: text, a number, yes or no, a list of texts.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Values = Record<string, any>;

export type Field = {
  name: string; // as in the request's body, so that a refusal finds its field
  label: string;
  help?: string;
  kind?: "text" | "long" | "password" | "money" | "number" | "choice" | "tags" | "moment" | "check";
  choices?: { value: string; label: string }[];
  required?: boolean;
  initial?: unknown;
  unit?: string;
  min?: number;
  max?: number;
};

type Props<R> = {
  opened: boolean;
  onClose: () => void;
  title: string;
  about?: ReactNode;
  action: string; // what the button says
  danger?: boolean;
  fields: Field[];
  run: (values: Values, key: string) => Promise<R>;
  done?: string;
  keys?: QueryKey[];
  after?: (result: R) => void;
};

const blank = (f: Field) => f.initial ?? (f.kind === "tags" ? [] : f.kind === "check" ? false : f.kind === "moment" || f.kind === "choice" ? null : "");

/** Asks for what is needed to do something, and does it. */
export function FormDialog<R>(props: Props<R>) {
  const { t } = useTranslation();
  return (
    <Modal opened={props.opened} onClose={props.onClose} title={props.title} closeButtonProps={{ "aria-label": t("action.close") }}>
      <Dates>
        <Content {...props} />
      </Dates>
    </Modal>
  );
}

function Content<R>({ about, action, danger, fields, run, done, keys, after, onClose }: Props<R>) {
  const { t } = useTranslation();
  const form = useForm<Values>({
    initialValues: Object.fromEntries(fields.map((f) => [f.name, blank(f)])),
    validate: (values) => Object.fromEntries(fields.filter((f) => f.required && (values[f.name] === "" || values[f.name] === null)).map((f) => [f.name, t("form.needed")])),
  });
  const act = useAct<Values, R>(run, {
    done,
    keys,
    quiet: true,
    after: (result) => {
      onClose();
      after?.(result);
    },
  });
  const { setFieldError } = form;
  useEffect(() => {
    if (!(act.error instanceof ApiError)) return;
    const name = act.error.field.replace(/^body\./, "");
    if (fields.some((f) => f.name === name)) setFieldError(name, act.error.message);
  }, [act.error]); // eslint-disable-line react-hooks/exhaustive-deps
  return (
    <form noValidate onSubmit={form.onSubmit((v) => act.mutate(v))}>
      <Stack>
        {about && (
          <Text size="sm" component="div">
            {about}
          </Text>
        )}
        {fields.map((f, i) => (
          <Input key={f.name} field={f} first={i === 0} input={form.getInputProps(f.name, { type: f.kind === "check" ? "checkbox" : "input" })} />
        ))}
        {act.error && <ErrorPanel error={act.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("action.cancel")}
          </Button>
          <Button type="submit" color={danger ? "red" : undefined} loading={act.isPending}>
            {action}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Input({ field: f, first, input }: { field: Field; first: boolean; input: object }) {
  const { t } = useTranslation();
  const common = { label: f.label, description: f.help, withAsterisk: f.required, ...(first && { "data-autofocus": true }), ...input };
  switch (f.kind) {
    case "long":
      return <Textarea autosize minRows={2} maxRows={8} {...common} />;
    case "password":
      return <PasswordInput autoComplete="new-password" visibilityToggleButtonProps={{ "aria-label": t("form.show_password") }} {...common} />;
    case "money":
      return <TextInput inputMode="decimal" autoComplete="off" rightSection={f.unit && <Text size="xs">{f.unit}</Text>} rightSectionWidth={f.unit ? 70 : undefined} {...common} />;
    case "number":
      return <NumberInput allowDecimal={false} min={f.min} max={f.max} suffix={f.unit && ` ${f.unit}`} {...common} />;
    case "choice":
      return <Select data={f.choices} clearable={!f.required} allowDeselect={!f.required} {...common} />;
    case "tags":
      return <TagsInput {...common} />;
    case "moment":
      return <DateTimePicker clearable {...common} />;
    case "check":
      return <Checkbox {...common} />;
    default:
      return <TextInput autoComplete="off" {...common} />;
  }
}

/** A button that opens a FormDialog. */
export function FormButton<R>({ label, variant, size, icon, ...dialog }: Omit<Props<R>, "opened" | "onClose"> & { label?: string; variant?: string; size?: string; icon?: ReactNode }) {
  const [opened, setOpened] = useState(false);
  return (
    <>
      <Button variant={variant ?? "default"} size={size ?? "sm"} leftSection={icon} color={dialog.danger ? "red" : undefined} onClick={() => setOpened(true)}>
        {label ?? dialog.title}
      </Button>
      <FormDialog {...dialog} opened={opened} onClose={() => setOpened(false)} />
    </>
  );
}
