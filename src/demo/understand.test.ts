import { describe, expect, it } from 'vitest';
import { environmentIn, results, understand, type Wish } from './understand.ts';

const calculate = (expression: string): Wish => ({ kind: 'calculate', expression });
const deploy = (environment?: 'test' | 'staging' | 'production'): Wish => ({ kind: 'deploy', ...(environment ? { environment } : {}) });
const post = (group: string, content?: string | typeof results): Wish => ({ kind: 'post', group, ...(content === undefined ? {} : { content }) });

describe('understand', () => {
  const wishes: readonly (readonly [message: string, wishes: Wish[]])[] = [
    ['(13+27)*4', [calculate('(13+27)*4')]],
    ['（13＋27）×4 等于多少？', [calculate('(13+27)*4')]],
    ['What is 1,234.5 * 2?', [calculate('1,234.5 * 2')]],
    ['20% of 50, please', [calculate('20% of 50')]],
    ['max(1, 2)+3', [calculate('max(1, 2)+3')]],
    ['3 x 4', [calculate('3 * 4')]],
    ['先算 1+1，再算 2*3', [calculate('1+1'), calculate('2*3')]],
    ['- 3+4\n- 5*6', [calculate('3+4'), calculate('5*6')]],
    ['((1+2)*3', [calculate('(1+2)*3')]],
    ['1+2+', [calculate('1+2')]],
    ['what is 24/7', [calculate('24/7')]],
    ['24/7', [calculate('24/7')]],
    ['今天 10-12 点开会', [{ kind: 'help' }]],
    ['the meeting of 2026-12-01', [{ kind: 'help' }]],
    ['PR #12 - 5 files', [{ kind: 'help' }]],
    ['3 of 4', [{ kind: 'help' }]],

    ['现在几点？', [{ kind: 'time' }]],
    ['今天几号', [{ kind: 'time' }]],
    ["what's the date", [{ kind: 'time' }]],
    ['What time is it in Tokyo?', [{ kind: 'time', timezone: 'Asia/Tokyo' }]],
    ['伦敦现在几点', [{ kind: 'time', timezone: 'Europe/London' }]],
    ['what time is it in Africa/Cairo', [{ kind: 'time', timezone: 'Africa/Cairo' }]],
    ['今天几号？顺便算 1+2*3', [{ kind: 'time' }, calculate('1+2*3')]],

    ['部署新版本', [deploy()]],
    ['上线', [deploy()]],
    ['Please deploy the new version', [deploy()]],
    ['release it', [deploy()]],
    ['部署到测试环境', [deploy('test')]],
    ['发布到预发', [deploy('staging')]],
    ['上线到生产', [deploy('production')]],
    ['deploy v1.2-3 to staging', [deploy('staging')]],
    ['release to prod', [deploy('production')]],

    ['通知 #all：今天 18:00 发布 1+1', [post('all', '今天 18:00 发布 1+1')]],
    ['告诉 #all 明天放假', [post('all', '明天放假')]],
    ['告诉 #all明天放假', [post('all', '明天放假')]],
    ['发到 #all：hi', [post('all', 'hi')]],
    ['给 #产品群 发一条消息：hi', [post('产品群', 'hi')]],
    ['把“今晚维护”发到 #all', [post('all', '今晚维护')]],
    ['把会议纪要发给 #all，谢谢', [post('all', '会议纪要')]],
    ['tell #all: lunch at noon', [post('all', 'lunch at noon')]],
    ['notify #all: x', [post('all', 'x')]],
    ['post to #ops: the disk is full', [post('ops', 'the disk is full')]],
    ['post this to #ops: disk', [post('ops', 'disk')]],
    ['can you post "hi there" in #all please', [post('all', 'hi there')]],
    ['tell everyone in #all that the build is green', [post('all', 'the build is green')]],
    ['tell #all: two\nlines', [post('all', 'two\nlines')]],
    ['tell #all', [post('all')]],

    ['work out (13+27)*4 and tell #all the result', [calculate('(13+27)*4'), post('all', results)]],
    ['算一下 (13+27)*4，把结果告诉 #all', [calculate('(13+27)*4'), post('all', results)]],
    ['send the result of (13+27)*4 to #all', [calculate('(13+27)*4'), post('all', results)]],
    ['把 (13+27)*4 的结果发到 #all', [calculate('(13+27)*4'), post('all', results)]],
    ['deploy to production and tell #all: done', [deploy('production'), post('all', 'done')]],

    ['Hello!', [{ kind: 'greet' }]],
    ['你好', [{ kind: 'greet' }]],
    ['谢谢！', [{ kind: 'thanks' }]],
    ['thanks', [{ kind: 'thanks' }]],
    ['写首诗', [{ kind: 'help' }]],
    ['', [{ kind: 'help' }]],
  ];
  it.each(wishes)('%j', (message, expected) => {
    expect(understand(message)).toEqual(expected);
  });
});

describe('environmentIn', () => {
  it('knows the words of both languages, and nothing else', () => {
    expect(['测试环境', 'staging', 'to pre-prod', '生产', 'the contest', '开发'].map(environmentIn)).toEqual(['test', 'staging', 'staging', 'production', undefined, undefined]);
  });
});
