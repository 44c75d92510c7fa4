import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { endLeftovers, findMarked, shellsOf } from '../../src/sandbox/leftover.ts'
import { makeShell, type ShellOptions } from '../../src/sandbox/make-shell.ts'
import { probeSandbox } from '../../src/sandbox/probe.ts'
import type { CommandResult, Probe, RunOptions, Shell } from '../../src/sandbox/shell.ts'
import type { View } from '../../src/sandbox/view.ts'
import { bundle } from '../support/bundle.ts'
import { makePlace, type Place, until } from '../support/sandbox.ts'

const found = await probeSandbox()
const none: Probe = { kind: 'none', detail: 'bubblewrap is not installed', remedy: 'install bubblewrap' }

let place: Place
let view: View
const shells: Shell[] = []
let n = 0

beforeAll(() => {
  place = makePlace()
  view = place.view('alice')
})
afterEach(async () => {
  await Promise.all(shells.splice(0).map(shell => shell.stop(200)))
})
afterAll(() => place.remove())

const shellWith = (options: Partial<ShellOptions> = {}): Shell => {
  const shell = makeShell({
    view,
    probe: found,
    mode: 'required',
    permissions: { allow: [], ask: [], deny: [] },
    marker: `${place.root}#test${++n}`,
    ...options,
  })
  shells.push(shell)
  return shell
}
const unboxed = (options: Partial<ShellOptions> = {}): Shell => shellWith({ probe: none, mode: 'prefer', ...options })

const run = async (shell: Shell, command: string, options: Partial<RunOptions> = {}): Promise<CommandResult> => {
  const result = await shell.run({
    command,
    timeoutMs: 20_000,
    outputBytes: 16_384,
    outputMaxBytes: 4_000_000,
    trusted: true,
    ...options,
  })
  if ('refused' in result) throw new Error(`refused: ${result.reason}`)
  return result
}

describe('the probe', () => {
  test('a program that is no sandbox is found out by its deed, not its name', async () => {
    const fake = join(place.top, 'fake-bwrap')
    writeFileSync(
      fake,
      '#!/bin/sh\n[ "$1" = --version ] && { echo bubblewrap 0.8.0; exit; }\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n',
      { mode: 0o755 },
    )
    const probe = await probeSandbox(fake)
    expect(probe.kind).toBe('none')
    expect(probe.detail).toMatch(/forbidden write/)
    expect(probe.remedy).toMatch(/sandbox/)
  })

  test('without bubblewrap it says so, with the remedy', async () => {
    const probe = await probeSandbox(join(place.top, 'no-such-program'))
    expect(probe).toMatchObject({ kind: 'none', detail: expect.stringMatching(/not installed/) })
    expect(probe.remedy).toMatch(/install bubblewrap/)
  })
})

// Both ways of running promise the same of a command's life; only what it may reach differs.
const ways: [string, boolean, () => Shell][] = [
  ['in the sandbox', found.kind === 'bwrap', () => shellWith()],
  ['without a sandbox', true, () => unboxed()],
]
for (const [way, isPossible, make] of ways)
  describe.skipIf(!isPossible)(`a command ${way}`, () => {
    test('gives its exit code and both streams in their order', async () => {
      const result = await run(make(), 'echo one; echo two >&2; echo three; exit 3')
      expect(result).toMatchObject({
        exitCode: 3,
        output: 'one\ntwo\nthree\n',
        endedBy: 'itself',
        left: [],
        file: null,
      })
    })

    test('reads its standard input, or an empty one', async () => {
      expect((await run(make(), 'cat', { stdin: 'a\nb' })).output).toBe('a\nb')
      expect((await run(make(), 'cat; echo end')).output).toBe('end\n')
    })

    test('C15 each teammate has its own folder and environment, and nothing passes from one command to the next', async () => {
      const bob = place.view('bob', { mode: 'git' })
      const two = shellWith({ view: bob, ...(way === 'in the sandbox' ? {} : { probe: none, mode: 'prefer' }) })
      const one = make()
      for (let round = 0; round < 2; round++) {
        const [a, b] = await Promise.all([
          run(one, 'pwd; echo "A=$A"; export A=1; cd /'),
          run(two, 'pwd; echo "A=$A"; export A=2; cd /'),
        ])
        expect(a.output).toBe(`${view.cwd}\nA=\n`)
        expect(b.output).toBe(`${bob.cwd}\nA=\n`)
      }
    })

    test('G05 a command that leaves something running comes back with its output and names what is left', async () => {
      const shell = make()
      for (const [command, said, left] of [
        ['sleep 61 & echo hi', 'hi\n', 'sleep 61'],
        ['setsid sleep 62 & echo hi', 'hi\n', 'sleep 62'],
        ['setsid sleep 63 >/dev/null 2>&1 & echo hi', 'hi\n', 'sleep 63'],
        ['yes >&2 & echo hi >/dev/null', undefined, 'yes'],
        ['python3 -m http.server 0 >/dev/null & sleep 0.3; echo up', 'up\n', 'python3 -m http.server'],
      ] as const) {
        const result = await run(shell, command, { timeoutMs: 50_000, outputMaxBytes: 64_000_000 })
        // It waited for none of them: each runs for longer than it had time.
        expect(result).toMatchObject({ exitCode: 0, endedBy: 'itself' })
        if (said !== undefined) expect(result.output).toBe(said)
        expect(result.left.map(process => process.command).join()).toContain(left)
      }
      const pids = findMarked(`${place.root}#test${n}`).map(process => process.pid)
      expect(pids.length).toBeGreaterThanOrEqual(5)
      await shell.stop(200)
      expect(findMarked(`${place.root}#test${n}`)).toEqual([])
    })

    test('C03 stop ends grandchildren in the group and out of it', async () => {
      const shell = make()
      const going = run(shell, '(sleep 64 & sleep 65) & setsid sleep 66 & nohup sh -c "trap : TERM; sleep 67" & wait')
      await until(
        () => findMarked(`${place.root}#test${n}`).filter(({ command }) => command.startsWith('sleep')).length === 4,
      )
      await shell.stop(200)
      expect((await going).exitCode).not.toBe(0)
      expect(findMarked(`${place.root}#test${n}`)).toEqual([])
    })

    test('is ended at its time limit, what it started too, and keeps what it had said', async () => {
      const shell = make()
      const result = await run(shell, 'echo begun; sleep 68 & sleep 69', { timeoutMs: 500 })
      expect(result).toMatchObject({
        endedBy: 'time',
        exitCode: null,
        output: expect.stringMatching(/^begun\n/),
        left: [],
      })
      expect(findMarked(`${place.root}#test${n}`)).toEqual([])
    })

    test('may clean up at the time limit: TERM comes before KILL', async () => {
      const result = await run(make(), 'trap "echo tidy; exit" TERM; echo begun; while :; do sleep 0.05; done', {
        timeoutMs: 500,
      })
      expect(result.output).toMatch(/^begun\n(.*\n)?tidy\n$/)
    })

    test('is ended when its signal aborts, at once when it has aborted before', async () => {
      const stop = new AbortController()
      const going = run(make(), 'sleep 70', { signal: stop.signal })
      await until(() => findMarked(`${place.root}#test${n}`).some(({ command }) => command === 'sleep 70'))
      stop.abort()
      expect((await going).endedBy).toBe('abort')
      expect((await run(make(), 'sleep 70', { signal: stop.signal })).endedBy).toBe('abort')
    })

    test('G13 an endless output is cut head and tail, counted and ended; the whole of it stands in a file', async () => {
      const out = join(view.home, 'out')
      const result = await run(make(), 'echo first; yes', { outDir: out, outputBytes: 1000, outputMaxBytes: 300_000 })
      expect(result).toMatchObject({ endedBy: 'output', truncated: true, bytes: 300_000 })
      expect(result.output).toMatch(/^first\ny\ny\n/)
      expect(result.output).toMatch(/\d+ bytes left out/)
      expect(Buffer.byteLength(result.output)).toBeLessThan(1100)
      expect(statSync(result.file ?? '').size).toBe(300_000)
    })

    test('G13 one long line and mere stderr are bounded too', async () => {
      const line = await run(make(), 'head -c 3000000 /dev/zero | tr "\\0" x; echo; echo end >&2', {
        outputBytes: 1000,
      })
      expect(line).toMatchObject({ exitCode: 0, truncated: true, bytes: 3_000_005, file: null })
      expect(line.output).toMatch(/x\nend\n$/)
    })

    test('F17 a cut never falls inside a character, and bytes that are no text are made well-formed', async () => {
      for (const keep of [100, 101, 102, 103]) {
        const { output } = await run(make(), `for i in $(seq 100); do printf '🦊é'; done`, { outputBytes: keep })
        expect(output).not.toContain('\uFFFD')
        expect(output).toMatch(/^(🦊é)*🦊?\n\[/u)
      }
      const torn = await run(make(), `printf 'a\\377\\360\\237b\\000c'`)
      expect(torn.output).toMatch(/^a\uFFFD+b\uFFFDc$/)
    })

    test('G07 no key reaches a command, and one that it prints all the same is redacted, in the file too', async () => {
      const secret = 'sk-TEST-123'
      const shell = makeShell({
        view,
        probe: way === 'in the sandbox' ? found : none,
        mode: 'prefer',
        permissions: { allow: [], ask: [], deny: [] },
        marker: `${place.root}#secret`,
        env: { OPENAI_API_KEY: secret },
        secrets: [secret],
      })
      shells.push(shell)
      process.env.TEAM_TEST_KEY = secret
      const result = await run(shell, 'env; echo "[$OPENAI_API_KEY$TEAM_TEST_KEY]"')
      delete process.env.TEAM_TEST_KEY
      expect(result.output).not.toContain(secret)
      expect(result.output).toMatch(/^\[\]$/m)
      const printed = await run(shell, `for i in $(seq 3000); do printf 'sk-TEST'; printf '%s ' -123; done`, {
        outputBytes: 100,
        outDir: join(view.home, 'out'),
      })
      expect(printed.output).toContain('[redacted]')
      expect(readFileSync(printed.file ?? '', 'utf8')).toBe('[redacted] '.repeat(3000))
    })

    test('has a bare environment: the teammate for git, nothing of the person', async () => {
      const { output } = await run(make(), 'env | cut -d= -f1 | sort | tr "\\n" " "')
      expect(output.split(' ').filter(name => name !== '' && !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name))).toEqual(
        'GIT_AUTHOR_EMAIL GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_NAME GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_TERMINAL_PROMPT HOME LANG PATH TEAM_COMMAND TEAM_NAME TERM TMPDIR'.split(
          ' ',
        ),
      )
    })

    test('leaves the callers informed: each start and each end, with what is left', async () => {
      const seen: string[] = []
      const shell = makeShell({
        view,
        probe: way === 'in the sandbox' ? found : none,
        mode: 'prefer',
        permissions: { allow: [], ask: [], deny: [] },
        marker: `${place.root}#seen`,
        onStart: ({ command }) => seen.push(`start ${command}`),
        onEnd: ({ left }) => seen.push(`end ${left.map(process => process.command)}`),
      })
      shells.push(shell)
      await run(shell, 'sleep 71 &')
      expect(seen).toEqual(['start sleep 71 &', 'end sleep 71'])
    })
  })

describe.skipIf(found.kind !== 'bwrap')('the sandbox', () => {
  test('shows the mounts at their real places, writable as they are, and nothing else of the root', async () => {
    mkdirSync(join(place.top, 'inputs'), { recursive: true })
    writeFileSync(join(place.top, 'inputs', 'x.csv'), 'a,b\n')
    mkdirSync(join(place.root, 'team/skills/csv'), { recursive: true })
    writeFileSync(join(place.root, 'team/skills/csv/SKILL.md'), 'how')
    const carol = place.view('carol', { mode: 'git', dataPaths: [join(place.top, 'inputs')] })
    const shell = shellWith({ view: carol })
    const { output } = await run(
      shell,
      [
        'cd ..; cat data/inputs/x.csv skills/csv/SKILL.md; echo',
        'echo done > out/result && echo kept > repo/file && echo note >> NOTES.md && echo written',
        'touch data/inputs/y || true; touch skills/csv/y || true; touch AGENTS.md || true',
        `ls -a ${place.root} ${place.root}/team | sort -u | tr '\\n' ' '`,
      ].join('\n'),
    )
    expect(output).toMatch(/^a,b\nhow\nwritten\n/)
    expect(output.match(/Read-only file system/g)).toHaveLength(3)
    expect(output).not.toMatch(/alice|config\.json|\.tasks|\.messages|\.team /)
    expect(readFileSync(join(carol.home, 'repo/file'), 'utf8')).toBe('kept\n')
    expect(readFileSync(join(carol.home, 'NOTES.md'), 'utf8')).toMatch(/note\n$/)
  })

  test('has no network, no file of the host, no way up, and an empty home', async () => {
    const { output } = await run(
      shellWith(),
      [
        'ls -A "$HOME" | wc -l; cat /proc/net/dev | grep -c eth0',
        `test -e ${process.cwd()}/package.json && echo seen; test -e /etc/shadow && echo shadow; echo x > /usr/bin/evil || true`,
        'grep CapEff /proc/self/status; unshare -r true 2>&1 | head -1; echo y > /x || true',
      ].join('\n'),
    )
    expect(output).toMatch(/^0\n0\n/)
    expect(output).not.toMatch(/seen|shadow/)
    expect(output).toMatch(/CapEff:\s+0000000000000000/)
    expect(existsSync('/usr/bin/evil')).toBe(false)
    expect(existsSync('/x')).toBe(false)
  })

  test('git, node and python work inside', async () => {
    const { output, exitCode } = await run(
      shellWith(),
      [
        'set -e; rm -rf g; git init -q -b main g; cd g; echo a > f; git add f; git commit -q -m "first"',
        'git log --format="%an %ae %s"; node -p 1+1; python3 -c "print(2+2)"; rm -rf ../g',
      ].join('\n'),
    )
    expect(exitCode).toBe(0)
    expect(output).toBe('alice alice@team.invalid first\n2\n4\n')
  })

  test('G07 in dir mode at the team root the run state is not there, and git does not take it for deleted', async () => {
    const own = makePlace(true)
    try {
      writeFileSync(join(own.root, 'file.txt'), 'work')
      writeFileSync(join(own.root, '.tasks/README.md'), 'readme')
      writeFileSync(join(own.root, 'team/AGENTS.md'), 'rules')
      const dave = own.view('dave')
      own.view('eve')
      const setup = await run(
        shellWith({ view: dave, probe: none, mode: 'off' }),
        'git init -q -b main . && git add file.txt config.json .tasks team/AGENTS.md && git commit -q -m one',
      )
      expect(setup.exitCode).toBe(0)
      const shell = shellWith({ view: own.view('dave') })
      const { output } = await run(
        shell,
        [
          'cat config.json; ls .tasks .messages .team; ls team; ls team/eve; cat file.txt; echo',
          'echo mine > ../team-root/team/dave/out/x && cat team/dave/out/x; echo evil > .git/hooks/pre-commit; mv .git .moved',
          'echo more > new.txt; git add -A; git commit -q -m two; git show --stat --format=%s HEAD',
        ].join('\n'),
      )
      expect(output).not.toContain('"alice"')
      expect(output).not.toMatch(/^readme$/m)
      expect(output).toMatch(/^work\nmine\n/m)
      expect(output).toMatch(/team\/eve': No such file/)
      expect(output).toMatch(/hooks\/pre-commit: Read-only file system/)
      expect(output).toMatch(/cannot move '.git'/)
      const shown = await run(shellWith({ view: dave, probe: none, mode: 'off' }), 'git ls-files; git log --format=%s')
      expect(shown.output).toMatch(/\.tasks\/README\.md\n(.*\n)*config\.json\n(.*\n)*team\/AGENTS\.md/)
    } finally {
      own.remove()
    }
  })

  test('what walks the tree passes what is hidden of a team root, sees nothing of it and writes nothing there', async () => {
    const own = makePlace(true)
    try {
      writeFileSync(join(own.root, 'sum.test.mjs'), "import test from 'node:test'\ntest('adds', () => {})\n")
      writeFileSync(join(own.root, '.tasks/task_1.json'), 'needle')
      const shell = shellWith({ view: own.view('dave') })
      for (const [command, expected] of [
        ['node --test', /^. pass 1$/m],
        ['grep -r needle . --exclude=config.json ; test $? = 1 && echo none', /^none$/m],
        ['find . -path ./.git -prune -o -print', /^\.\/\.tasks$/m],
      ] as const) {
        const { output, exitCode } = await run(shell, command)
        expect([command, exitCode, output]).toEqual([command, 0, expect.stringMatching(expected)])
        expect(output).not.toMatch(/EACCES|[Pp]ermission denied|task_1/)
      }
      const { output } = await run(
        shell,
        'for f in .tasks .messages .team; do echo x > $f/y && echo written; done; chmod 755 .tasks',
      )
      expect(output).not.toMatch(/^written$/m)
      expect(output).toMatch(/chmod.*Read-only file system/)
    } finally {
      own.remove()
    }
  })

  test('a deny rule refuses, and so does what no rule can read; everything else runs', async () => {
    const shell = shellWith({ permissions: { allow: [], ask: ['curl'], deny: ['rm -rf'] } })
    const ask = (command: string) => shell.run({ command, timeoutMs: 5000, outputBytes: 1000, outputMaxBytes: 10_000 })
    expect(await ask('rm -rf x')).toMatchObject({ refused: 'denied' })
    expect(await ask('curl http://x')).toMatchObject({
      refused: 'not allowed',
      reason: expect.stringMatching(/person/),
    })
    expect(await ask('$(printf rm) -rf x')).toMatchObject({
      refused: 'not allowed',
      reason: expect.stringMatching(/cannot judge/),
    })
    expect(await ask('echo $((1+1)) "$HOME"')).toMatchObject({ exitCode: 0 })
  })

  test('G03 whatever gets past the rules, a folder beside the view stays whole', async () => {
    const beside = join(place.top, 'beside')
    mkdirSync(beside, { recursive: true })
    writeFileSync(join(beside, 'precious'), '1')
    const shell = shellWith({ permissions: { allow: [], ask: [], deny: ['rm -rf'] } })
    const code = Buffer.from(`rm -rf ${beside}`).toString('base64')
    for (const command of [
      `r''m -rf ${beside}`,
      `"rm" -rf ${beside}`,
      `rm\${IFS}-rf\${IFS}${beside}`,
      `$(printf rm) -rf ${beside}`,
      `\\rm -rf ${beside}`,
      `echo ${code} | base64 -d | sh`,
      `python3 -c 'import shutil; shutil.rmtree("${beside}")'`,
    ])
      await shell.run({ command, timeoutMs: 5000, outputBytes: 1000, outputMaxBytes: 10_000 })
    expect(readdirSync(beside)).toEqual(['precious'])
  })

  test('killing everything it can see does not hang the call', async () => {
    const result = await run(shellWith(), 'echo before; kill -9 -1; sleep 72')
    expect(result.endedBy).toBe('itself')
    expect(result.exitCode).not.toBe(0)
  })
})

describe('without a sandbox', () => {
  test('mode required runs nothing, not even what the person wrote, and says what to do', async () => {
    const shell = shellWith({ probe: none, mode: 'required' })
    for (const trusted of [true, false])
      expect(
        await shell.run({ command: 'true', trusted, timeoutMs: 5000, outputBytes: 100, outputMaxBytes: 100 }),
      ).toMatchObject({ refused: 'no sandbox', reason: expect.stringMatching(/install bubblewrap/) })
  })

  test('modes prefer and off run only what a rule allows', async () => {
    for (const [mode, probe] of [
      ['prefer', none],
      ['off', found],
    ] as const) {
      const shell = shellWith({ mode, probe, permissions: { allow: ['node *'], ask: [], deny: [] } })
      const ask = (command: string) =>
        shell.run({ command, timeoutMs: 5000, outputBytes: 1000, outputMaxBytes: 10_000 })
      expect(await ask('node -p 1+1')).toMatchObject({ exitCode: 0, output: '2\n' })
      expect(await ask('node -p 1; touch x')).toMatchObject({
        refused: 'not allowed',
        reason: expect.stringMatching(/touch x.*Allowed: node \*/s),
      })
    }
    expect(existsSync(join(view.cwd, 'x'))).toBe(false)
  })

  test('what a dead thread left is found by its mark, never by a number, and another name is left alone', async () => {
    const one = unboxed({ marker: `${place.root}#mate` })
    const two = unboxed({ marker: `${place.root}#mate-2` })
    await run(one, 'setsid sleep 73 & sleep 74 &')
    await run(two, 'sleep 75 &')
    const ended = await endLeftovers(`${place.root}#mate`, 300)
    expect(ended.map(({ command, alive }) => `${command} ${alive}`).sort()).toEqual([
      'sleep 73 false',
      'sleep 74 false',
    ])
    expect(findMarked(`${place.root}#mate-2`).map(({ command }) => command)).toEqual(['sleep 75'])
    expect((await endLeftovers(`${place.root}#`, 300)).map(({ command }) => command)).toEqual(['sleep 75'])
  })
})

describe('when the thread that started a command dies', () => {
  const dieWith = async (probe: Probe): Promise<string> => {
    const marker = `${place.root}#thread${++n}`
    const data = {
      view: { name: 'alice', root: place.root, workspace: place.workspace, mode: 'dir', dataPaths: [], hub: null },
      probe,
      marker,
    }
    const worker = new Worker(bundle(new URL('../support/shell-thread.ts', import.meta.url)), {
      workerData: data,
      env: {},
    })
    await until(() => findMarked(marker).some(({ command }) => command === 'sleep 91'), 45_000)
    await worker.terminate()
    return marker
  }

  test.skipIf(found.kind !== 'bwrap')('C03 in the sandbox all of it dies too, with nobody to end it', async () => {
    const marker = await dieWith(found)
    await until(() => findMarked(marker).length === 0)
  })

  test('C03 what threw its mark away is named and ended all the same: by its session, and by its parent while that runs', async () => {
    // No other run's, that may have failed here.
    const [one, two, three] = [1, 2, 3].map(digit => process.pid * 10 + digit) as [number, number, number]
    const bare = (seconds: number, how = '') => `env -i ${how} sleep ${seconds} >/dev/null 2>&1 &`
    const alive = () =>
      readdirSync('/proc')
        .filter(name => /^\d+$/.test(name))
        .map(pid => {
          try {
            return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
          } catch {
            return '' // It ended meanwhile.
          }
        })
        .filter(command => [one, two, three].some(seconds => command === `sleep ${seconds}`))
    const shell = unboxed()
    const result = await run(shell, `${bare(one)} sleep 0.2; echo hi`)
    expect([result.exitCode, result.output, result.left.map(left => left.command)]).toEqual([
      0,
      'hi\n',
      [`sleep ${one}`],
    ])
    const going = run(shell, `${bare(two)} ${bare(three, 'setsid')} wait`)
    await until(() => alive().length === 3)
    await shell.stop(200)
    expect((await going).exitCode).not.toBe(0)
    expect(alive()).toEqual([])
  })

  test('C03 without one it lives on, and is found and ended by its mark', async () => {
    const marker = await dieWith(none)
    expect((await endLeftovers(marker, 300)).map(({ command }) => command)).toContain('sleep 91')
    expect(findMarked(marker)).toEqual([])
  })
})

test('a working folder that is gone is told, not thrown', async () => {
  const gone = place.view('gone', { mode: 'git' })
  rmSync(gone.cwd, { recursive: true })
  const shell = unboxed({ view: gone })
  expect(
    await shell.run({ command: 'true', trusted: true, timeoutMs: 1, outputBytes: 1, outputMaxBytes: 1 }),
  ).toMatchObject({
    refused: 'no folder',
    reason: expect.stringMatching(/does not exist/),
  })
})

test('what a dead thread left is told from what its successor runs, though both carry one name', async () => {
  const { spawn } = await import('node:child_process')
  const marker = `/nowhere/${process.pid}#alice`
  const run = (mark: string) =>
    spawn('sleep', ['67'], {
      env: { PATH: process.env.PATH ?? '', TEAM_COMMAND: `${marker}.${mark}` },
      stdio: 'ignore',
    })
  const old = run('aaaa0000-1')
  await expect.poll(() => findMarked(marker).length).toBe(1)
  const shells = shellsOf(marker)
  const next = run('bbbb0000-1')
  await expect.poll(() => findMarked(marker).length).toBe(2)
  expect(shells).toEqual([`${marker}.aaaa0000-`])
  for (const shell of shells) await endLeftovers(shell, 1000)
  expect(findMarked(marker).map(({ pid }) => pid)).toEqual([next.pid])
  next.kill('SIGKILL')
  await expect.poll(() => old.signalCode ?? old.exitCode).not.toBeNull()
})
