import { expect, test } from 'vitest'
import { says, start, teamOk, teamRoot, until } from '../support/cli.ts'
import { ask, status } from '../support/scripted-team.ts'

test('of two runbooks that lock in opposite orders one fails at the lease that is refused at once, and the other goes on', async () => {
  const root = teamRoot({
    mode: 'dir',
    sandbox: 'off',
    model: { provider: 'runbook' },
    teammates: [{ name: 'alice' }, { name: 'bob' }],
  })
  await says(start(['up', '--root', root]), /ready, pid/)
  const runbook = (one: string, two: string) => `lease: name ${one}\nask: Go on?\nlease: name ${two}\nnote: has both`
  await ask(root, 'task.add', {
    tasks: [
      { title: 'one', assignee: 'alice', needs: [], description: runbook('x', 'y') },
      { title: 'two', assignee: 'bob', needs: [], description: runbook('y', 'x') },
    ],
  })
  // Each holds its own by now.
  const questions = await until(async () => {
    const asked = (await ask(root, 'request.list', {})).requests.filter(({ type }) => type === 'question')
    return asked.length === 2 && asked
  }, 60_000)
  for (const { id } of questions) await teamOk(['answer', id, 'yes', '--root', root])
  const tasks = await until(async () => {
    const { tasks } = await status(root)
    return tasks.every(({ status }) => status === 'completed' || status === 'failed') && tasks
  }, 60_000)
  const failed = tasks.filter(({ status }) => status === 'failed')
  expect(failed).toHaveLength(1)
  const { task } = await ask(root, 'task.get', { id: failed[0]?.id ?? '' })
  expect(task.error).toMatch(/Step 3 of 4: the lease on name [xy]: opened req_\d, which is rejected already: .*circle/)
})
