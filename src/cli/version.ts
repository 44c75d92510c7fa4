declare const TEAM_VERSION: string | undefined

/** The package's version, put in by the build. */
export const version: string = typeof TEAM_VERSION === 'string' ? TEAM_VERSION : '0.0.0'
