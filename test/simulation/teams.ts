import { team } from './holder.ts'
import { Puppet, type PuppetSession } from './puppet.ts'
import type { Simulation } from './run.ts'
import { World } from './world.ts'

const names = ['ann', 'bob', 'cid']
const limits = { heartbeatSeconds: 86_400, messageBatch: 3, restarts: 2, returns: 1, mailRounds: 3 }
const base = { teammates: names.map(name => ({ name, ...(name === 'bob' ? { needsPlan: true } : {}) })), limits }

/** One of each kind of team. */
export const teams = {
  'a team that merges by rule, without a lead': {
    isGit: true,
    team: team({ ...base, review: true, approvals: { merge_request: 'auto', plan_request: 'auto' } }),
  },
  'a team with a lead who decides, and caps': {
    isGit: true,
    team: team({
      ...base,
      lead: 'ann',
      approvals: { merge_request: 'lead', plan_request: 'lead' },
      budget: { team: { tokens: 200 }, teammate: { tokens: 100 }, task: { tokens: 80 } },
    }),
  },
  'a team in one folder, where leases matter': { isGit: false, team: team({ ...base, review: true, lead: 'cid' }) },
}

/** The supervisor as it is, and teammates that do whatever the schedule says. */
export const ofTeam = (kind: keyof typeof teams, length = 80): Simulation => ({
  name: kind,
  length,
  run: async (schedule, trace) => {
    const { team, isGit } = teams[kind]
    const sessions = new Map<string, PuppetSession>()
    const world = new World({
      team,
      isGit,
      used: () => [...sessions.values()].reduce((sum, { used }) => sum + used.input + used.output, 0),
      ...(trace ? { trace } : {}),
      makeBody: (world, name, post, end) => {
        const session = sessions.get(name) ?? { mark: { upTo: 0, early: [] }, used: { input: 0, output: 0, calls: 0 } }
        sessions.set(name, session)
        return new Puppet({
          name,
          names,
          session,
          post,
          batch: limits.messageBatch,
          end,
          fail: error => world.fail(error),
          onMail: (index, id) => world.mail(name, index, id),
          commit: branch => world.hub.commit(`/nowhere/team/${name}/repo`, branch),
          trace: text => world.trace(text),
        })
      },
    })
    try {
      await world.begin()
      for (const step of schedule) await world.step(step)
      await world.rest((schedule[0] ?? 0) % 4)
    } finally {
      world.end()
    }
  },
})
