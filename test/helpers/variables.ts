/**
 * Settings of a test, by their variables. Those that only a file can hold have such names too: `GATE`, `IDP_ISSUERS`.
 */
export type Variables = Record<string, unknown>
