export function nameLoss (file: string, unrun?: readonly string[]): void
