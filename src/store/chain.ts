/** Hash chains: each row's hash covers the row before it. Blanking data and salt for an erasure leaves the chain verifiable. */
import { createHash, createHmac, randomUUID } from 'node:crypto';

export const chainStart = '0'.repeat(64);

/** 122 random bits; unlike `randomBytes` it does not ask the system each time. */
export const newSalt = (): string => randomUUID();
export const macOf = (salt: string, data: string): string => createHmac('sha256', salt).update(data).digest('hex');

/** sha256 over the parts, each preceded by its length so that no two lists look alike. */
export function chainHash(previous: string, ...parts: readonly (string | number)[]): string {
  const hash = createHash('sha256').update(previous);
  for (const part of parts) {
    const text = String(part);
    hash.update(`${Buffer.byteLength(text)}:`).update(text);
  }
  return hash.digest('hex');
}
