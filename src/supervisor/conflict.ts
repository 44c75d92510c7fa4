import { cut, firstWords } from '../lib/text.ts'
import type { Task } from '../protocol/task.ts'
import type { Core } from './core.ts'

/** What of the text stands in the task's record and in a context: the whole lies in the clone, where it is to be settled. */
const most = { hunk: 1200, hunks: 5000, tasks: 10 }

/** What a task that cannot be merged is sent back with: the files, what met there, and whose work it is on either side. */
export const conflictText = async (
  core: Core,
  task: Pick<Task, 'id' | 'title'>,
  met: {
    readonly head: string
    readonly onto: string
    readonly files: readonly string[]
    readonly messages: readonly string[]
  },
): Promise<string> => {
  const detail = core.hub ? await core.hub.conflict(met) : null
  const { files, since } = detail?.ok ? detail.value : { files: [], since: [] }
  const theirs = since.slice(0, most.tasks).map(({ commit, subject, files }) => {
    const from = taskMergedAs(core, commit)
    const whose =
      from === null ? `"${firstWords(subject)}"` : `task ${from.id} "${firstWords(from.title)}", by ${from.owner}`
    return `- ${whose} (${commit.slice(0, 10)}): ${files.join(', ')}`
  })
  return [
    `your branch conflicts with the trunk in: ${met.files.join(', ')}. When you take the task up again, the trunk is merged into your branch and the conflict lies in your files: settle it so that both sides keep what they are for, commit, and complete the task again.`,
    ...(met.messages.length === 0 ? [] : [met.messages.join('\n')]),
    ...(theirs.length === 0 ? [] : [`On the trunk meanwhile, in these files:\n${theirs.join('\n')}`]),
    `On your side: task ${task.id} "${firstWords(task.title)}"`,
    ...(detail?.ok === false ? [`[what met there could not be read: ${detail.fault.message}]`] : []),
    ...shownHunks(files),
  ].join('\n\n')
}

/** The task that this commit of the trunk merged, or null. */
export const taskMergedAs = ({ store }: Pick<Core, 'store'>, commit: string): Task | null => {
  for (const [, { value }] of store.tasks.list()) if (value.result?.commit === commit) return value
  return null
}

const shownHunks = (files: readonly { readonly path: string; readonly hunks: readonly string[] }[]): string[] => {
  let left = most.hunks
  let more = 0
  const shown: string[] = []
  for (const { path, hunks } of files)
    for (const hunk of hunks) {
      const part =
        hunk.length > most.hunk ? `${cut(hunk, most.hunk)}\n[${hunk.length - most.hunk} characters more]` : hunk
      left -= part.length
      if (left < 0) more++
      else shown.push(`${path}\n${part}`)
    }
  return more === 0 ? shown : [...shown, `[${more} more ${more === 1 ? 'place' : 'places'} in conflict]`]
}
