/** What every database must do, whichever it is. */
import { describe } from 'vitest';
import { freshDatabase, type MakeDatabase } from './store-fixture.ts';
import { lanesContract } from './store-lanes.ts';
import { messagesContract } from './store-messages.ts';
import { recordContract } from './store-record.ts';

export function storeContract(name: string, makeDatabase: MakeDatabase): void {
  describe(`a store on ${name}`, () => {
    const fixture = freshDatabase(makeDatabase);
    recordContract(fixture);
    lanesContract(fixture);
    messagesContract(fixture);
  });
}
