import { testWith } from '../go-program.ts'

const OAUTH2_PROXY = {
  name: 'oauth2-proxy',
  module: 'github.com/oauth2-proxy/oauth2-proxy/v7',
  version: '7.15.6',
  sum: 'h1:4xZOFvyGysSUxdrEVyLjo+NduqGHbGV9bLE8XD49IJM=',
  main: '.',
  versionVariable: 'github.com/oauth2-proxy/oauth2-proxy/v7/pkg/version.VERSION'
}

/** Later releases are no versions of its module: their major is above 1, and its path does not say so. */
const OATHKEEPER = {
  name: 'oathkeeper',
  module: 'github.com/ory/oathkeeper',
  version: '0.40.9',
  sum: 'h1:Le9bcK5QJTHFjIgo6j5Ih0ffqEQwybjHHANC6RiA5GY=',
  main: '.',
  versionVariable: 'github.com/ory/oathkeeper/x.Version'
}

await testWith([OAUTH2_PROXY, OATHKEEPER], ['--disable-coverage', '--timeout=900', 'test/matrix/moving.test.ts'])
