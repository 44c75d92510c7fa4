import { expect, test } from 'vitest'
import { EntryLog, Table } from '../../src/store/table.ts'
import { simulate } from './run.ts'
import { ofStore } from './store.ts'

test(ofStore.name, async () => {
  const { runs } = await simulate(ofStore, 2000, 1)
  expect(runs).toBeGreaterThan(0)
})

test('a compare-and-set that does not compare is found, and so is a log that gives an index again', async () => {
  const { update } = Table.prototype
  Table.prototype.update = function (id, _rev, ...rest) {
    return update.call(this, id, this.get(id)?.rev ?? 0, ...rest)
  }
  try {
    await expect(simulate(ofStore, 2000, 1)).rejects.toThrow(/an update of m\d at revision \d+ was taken in/)
  } finally {
    Table.prototype.update = update
  }
  const { load } = EntryLog.prototype
  EntryLog.prototype.load = function (dump) {
    load.call(this, { ...dump, last: [...dump.entries].length })
  }
  try {
    await expect(simulate(ofStore, 2000, 1)).rejects.toThrow(/another state|contradicts|follows/)
  } finally {
    EntryLog.prototype.load = load
  }
})
