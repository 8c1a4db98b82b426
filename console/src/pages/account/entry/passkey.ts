import { startAuthentication, startRegistration, WebAuthnError, type PublicKeyCredentialCreationOptionsJSON, type PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/browser";
import { api, data, type Schema } from "../../../api/client";

/** Whether the browser knows passkeys here: at a host name, by an encrypted way or on this machine. */
export const passkeysThere = () => typeof window.PublicKeyCredential === "function" && window.isSecureContext;

/** Whether a person turned away from the browser's question, or it found nothing: no failure of ours. */
export const turnedAway = (e: unknown) => (e instanceof WebAuthnError && (e.code === "ERROR_CEREMONY_ABORTED" || (e.cause as Error | undefined)?.name === "NotAllowedError")) || (e instanceof Error && (e.name === "NotAllowedError" || e.name === "AbortError"));

/** Signs in by a passkey that the person chooses. */
export async function signInByPasskey(): Promise<Schema["Session"]> {
  const asked = await data(api.POST("/v1/sessions/passkey/begin"));
  const credential = await startAuthentication({ optionsJSON: asked.options as PublicKeyCredentialRequestOptionsJSON });
  return data(api.POST("/v1/sessions/passkey", { body: { ceremony_id: asked.ceremony_id, credential } }));
}

/** Makes a passkey and adds it to who is signed in. */
export async function addPasskey(password: string, name: string): Promise<Schema["Passkey"]> {
  const asked = await data(api.POST("/v1/me/passkeys/begin", { body: { password } }));
  const credential = await startRegistration({ optionsJSON: asked.options as PublicKeyCredentialCreationOptionsJSON });
  return data(api.POST("/v1/me/passkeys", { body: { ceremony_id: asked.ceremony_id, name, credential } }));
}
