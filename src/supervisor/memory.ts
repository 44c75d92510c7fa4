import { iso } from '../lib/clock.ts'
import { ok } from '../lib/result.ts'
import { firstWords } from '../lib/text.ts'
import { addMemory, memoryFile } from '../store/files/memory-file.ts'
import type { Core } from './core.ts'
import type { Table } from './handlers.ts'

/** The team's memory has one writer: each entry is in the file before the next one is looked at, so many who save at once lose nothing. */
export const memoryHandlers = (core: Core): Pick<Table, 'memory.save'> => ({
  'memory.save': ({ content, category }, { actor }) => {
    const entry = { time: iso(core.clock.wall()), category, who: actor, content }
    const added = addMemory(memoryFile(core.root), entry)
    if (!added.ok || added.value.known !== null) return added
    core.store.note({ event: 'memory.saved', by: actor, info: { category, text: firstWords(content) } })
    return ok({ known: null })
  },
})
