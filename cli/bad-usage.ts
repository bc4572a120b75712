/** What was asked cannot be done as it was asked. The message says what to change. */
export class BadUsage extends Error {}
