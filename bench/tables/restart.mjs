// From `team up` after kill -9 until every teammate is at work again: the built command, real threads, real commands.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { command, folder, isBuilt, notBuilt, now, sleep } from '../lib.mjs'

const sizes = [1, 4, 16]
/** Longer than any of this takes. */
const work = 'sleep 300'

const makeRoot = size => {
  const root = folder('restart')
  const names = Array.from({ length: size }, (_, n) => `t-${n + 1}`)
  writeFileSync(
    join(root, 'config.json'),
    JSON.stringify({
      mode: 'dir',
      sandbox: 'off',
      model: { provider: 'runbook' },
      permissions: { allow: ['sleep *'] },
      limits: { commandSeconds: 600 },
      teammates: names.map(name => ({ name })),
    }),
  )
  mkdirSync(join(root, '.tasks'))
  for (const name of names)
    writeFileSync(
      join(root, '.tasks', `${name}.md`),
      `---\ntitle: ${name}\nassignee: ${name}\nneeds: []\n---\n\`\`\`sh\n${work}\n\`\`\`\n`,
    )
  return { root, names }
}

const startsOf = (root, name) => {
  const file = join(root, '.team', 'sessions', `${name}.jsonl`)
  return existsSync(file) ? readFileSync(file, 'utf8').split('"k":"tool.start"').length - 1 : 0
}

/** Starts the daemon and waits until each has begun its command for the `times`th time. */
const up = async (root, names, times) => {
  const from = now()
  const child = spawn(process.execPath, [command, 'up', '--root', root], { cwd: root, stdio: 'ignore' })
  while (!names.every(name => startsOf(root, name) >= times)) {
    if (child.exitCode !== null) throw new Error(`team up ended with ${child.exitCode}`)
    await sleep(5)
  }
  return { child, ms: now() - from }
}

const ended = (child, signal) =>
  new Promise(resolve => {
    child.once('exit', resolve)
    child.kill(signal)
  })

const measure = size => async () => {
  const { root, names } = makeRoot(size)
  const first = await up(root, names, 1)
  await ended(first.child, 'SIGKILL')
  const again = await up(root, names, 2)
  // Asked twice it ends at once, and its commands with it.
  again.child.kill('SIGTERM')
  await sleep(200)
  await ended(again.child, 'SIGTERM')
  return { first: first.ms / 1000, again: again.ms / 1000 }
}

export default {
  title: 'From team up after kill -9 until all teammates work again',
  method:
    `The built command with the runbook executor; each teammate is at a command (${work}) when the daemon is killed. First: from the first \`team up\` ` +
    'until each command has begun. Again: from the next one until each has begun anew, in its old context; what the killed one left running is found and ended meanwhile.',
  turns: 3,
  base: '1 teammate',
  columns: [
    { key: 'again', label: 'again at work after, s', ratio: true },
    { key: 'first', label: 'at work the first time after, s' },
  ],
  async prepare() {
    if (!isBuilt()) return notBuilt('team up')
    return {
      variants: sizes.map(size => ({ name: size === 1 ? '1 teammate' : `${size} teammates`, measure: measure(size) })),
      missing: [],
      close: async () => {},
    }
  },
}
