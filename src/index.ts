/**
 * The library behind the command: the formats of every file (zod schemas and their types), a client for a running daemon,
 * and the daemon itself for programs that embed it. What is exported here is what may be relied on.
 */
export { type Clock, clock } from './lib/clock.ts'
export { exitCode, type Fault, type FaultCode, type Result } from './lib/result.ts'
export { Config, type Member, members, TeammateConfig } from './protocol/config.ts'
export { type EventType, eventTypes, JournalEntry } from './protocol/event.ts'
export { Message, messageTypes, Stored } from './protocol/message.ts'
export { Request } from './protocol/request.ts'
export { requestTypes } from './protocol/request-types.ts'
export type {
  Call,
  Hello,
  RpcMethod,
  RpcParams,
  RpcResults,
  Status,
  TaskShown,
  TeammateStatus,
} from './protocol/rpc.ts'
export { Task, TaskDrop, type TaskFile } from './protocol/task.ts'
export { taskStatuses } from './protocol/task-status.ts'
export type { FromThread, ThreadData, ToThread } from './protocol/thread.ts'
export { probeSandbox } from './sandbox/probe.ts'
export { type Client, connect } from './store/index.ts'
export { findRoot, layout, loadConfig } from './store/root.ts'
export { startDaemon } from './supervisor/daemon.ts'
export type { Daemon, DaemonOptions } from './supervisor/daemon-options.ts'
